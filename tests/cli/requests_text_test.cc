#include "cli/requests_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

JsonValue requests() {
  auto document = parse_json(
      R"([{"time": "2026-11-23T05:30:00.123Z", "request_id": "r-2", "pool": "chat", "tenant": "acme",
           "model": "llama", "task": "chat", "stream": true, "status": 200, "reason": null,
           "attempts_total": 2,
           "attempts": [{"backend": "gpu1:8000", "outcome": "overloaded", "connect_seconds": 0},
                        {"backend": "gpu2:8000", "outcome": "answered", "connect_seconds": 0}],
           "estimated_prompt_tokens": 990, "prompt_tokens": 1000, "completion_tokens": 20,
           "cached_tokens": 960, "finish_reason": "length", "duration_seconds": 1.5,
           "ttft_seconds": 0.087, "tpot_seconds": 0.02, "max_gap_seconds": 0.031},
          {"time": "2026-11-23T05:29:59.000Z", "request_id": "r-1", "pool": "chat", "tenant": null,
           "model": null, "task": "embedding", "stream": false, "status": 499,
           "reason": "client_gone", "attempts_total": 0, "attempts": [],
           "estimated_prompt_tokens": 12, "prompt_tokens": null, "completion_tokens": null,
           "cached_tokens": null, "finish_reason": null, "duration_seconds": 0.5,
           "ttft_seconds": null, "tpot_seconds": null, "max_gap_seconds": null}])");
  EXPECT_TRUE(document.ok());
  return std::move(*document);
}

TEST(RequestsText, HasARowForEachRequest) {
  const Lines lines = requests_text(requests());

  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_THAT(lines[0], AllOf(HasSubstr("MODEL"), HasSubstr("TTFT"), HasSubstr("BACKEND")));
  EXPECT_THAT(lines[1],
              AllOf(HasSubstr("05:30:00.123"), HasSubstr("llama"), HasSubstr("200"),
                    HasSubstr("1.00k"), HasSubstr("960"), HasSubstr("87.0ms"), HasSubstr("20.0ms"),
                    HasSubstr("length"), HasSubstr("gpu2:8000 (attempt 2)")));
  EXPECT_THAT(lines[2], AllOf(HasSubstr("~12"), HasSubstr("499"), HasSubstr("client_gone"),
                              Not(HasSubstr("attempt"))));
}

TEST(RequestsText, NamesTheTenantAndTheRequest) {
  const Lines lines = requests_text(requests());

  EXPECT_THAT(lines[0], AllOf(HasSubstr("TENANT"), HasSubstr("ID")));
  EXPECT_THAT(lines[1], AllOf(HasSubstr("acme"), HasSubstr("r-2")));
  EXPECT_THAT(lines[2], AllOf(HasSubstr(" - "), HasSubstr("r-1")));
}

TEST(RequestsText, ShowsThoseThatAreAskedFor) {
  const auto ids = [](const RequestFilter& filter) {
    std::string text;
    const JsonValue shown = filtered_requests(requests(), filter);
    for (const JsonValue& each : shown.items()) text += each["request_id"].text() + " ";
    return text;
  };
  EXPECT_EQ(ids({}), "r-2 r-1 ");
  EXPECT_EQ(ids({.errors = true}), "r-1 ");
  EXPECT_EQ(ids({.tenant = "acme"}), "r-2 ");
  EXPECT_EQ(ids({.model = "llama"}), "r-2 ");
  EXPECT_EQ(ids({.pool = "other"}), "");
  EXPECT_EQ(ids({.slowest_first = true}), "r-2 r-1 ");
  EXPECT_EQ(ids({.min_duration = std::chrono::seconds(1)}), "r-2 ");
}

TEST(RequestsText, FitsANarrowTerminal) {
  for (const std::string& line : requests_text(requests(), 40)) EXPECT_LE(line.size(), 40u);
}

TEST(RequestsText, SaysWhyThereAreNone) {
  EXPECT_THAT(requests_text(JsonValue()), testing::ElementsAre(HasSubstr("inspect")));
}

}  // namespace
}  // namespace evenkeel
