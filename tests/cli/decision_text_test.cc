#include "cli/decision_text.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

std::string candidate(const std::string& backend, const std::string& state,
                      const std::string& cost) {
  return fmt::format(
      R"({{"backend": {}, "state": "{}", "confidence": "confirmed", "streams": 3, "cost": {},
           "wait_seconds": 0.012, "promised_seconds": 0, "prefill_seconds": 0.202,
           "load_seconds": 0.071, "eviction_seconds": 0.006,
           "cached_tokens": 3072, "uncached_tokens": 1240, "lateness": 0.01, "violations": 0.031,
           "decode_seconds": 0.09, "memory": 0, "heard_age_seconds": 0.5,
           "report_age_seconds": null}})",
      backend, state, cost);
}

const std::string placed = fmt::format(
    R"({{"age_seconds": 12, "state": "finished", "backend": "gpu1:8000", "pool": "chat",
         "priority": "standard", "prompt_tokens": 4312, "ttft_target_seconds": 2,
         "tpot_target_seconds": 0.1, "prompt_seconds": null,
         "held": {{"seconds": 0.021, "by": {{"streams": 0.02, "order": 0.001}},
                   "for": "gpu1:8000", "looks": 3}},
         "considered": 2, "candidates": [{}, {}],
         "predicted": {{"ttft_seconds": 0.214, "cached_tokens": 3072, "output_tokens": 180}},
         "outcome": {{"ttft_seconds": 0.23, "cached_tokens": 3071, "output_tokens": 175,
                      "seconds": 3.1}},
         "shadow": {{"backend": "gpu2:8000", "cost": 0.9, "scheduler_backend": "gpu1:8000",
                     "scheduler_cost": 0.531}}}})",
    candidate(R"("gpu1:8000")", "open", "0.531"), candidate("null", "full", "null"));

const std::string refused =
    R"({"age_seconds": 1, "state": "refused", "backend": null, "pool": "chat",
        "priority": "batch", "prompt_tokens": 90, "ttft_target_seconds": 0.01,
        "tpot_target_seconds": 0.1, "prompt_seconds": 0.48,
        "held": {"seconds": 0, "by": {}, "for": null, "looks": 0}, "considered": 0,
        "candidates": [], "predicted": null, "outcome": null, "shadow": null})";

Lines text_of(const std::string& attempts, std::optional<std::size_t> width = std::nullopt) {
  const auto document = parse_json(R"({"request_id": "r-1", "attempts": [)" + attempts + "]}");
  EXPECT_TRUE(document.ok());
  return decision_text(*document, width);
}

TEST(DecisionText, TellsWhatWasDecidedPredictedAndCameTrue) {
  const Lines lines = text_of(placed);

  EXPECT_EQ(lines[0], "pool chat, 12.00s ago: finished, on gpu1:8000");
  EXPECT_THAT(lines, Contains("  request    4.31k prompt tokens, priority standard"));
  EXPECT_THAT(lines, Contains("  targets    first token after 2.00s, then 100ms for each"));
  EXPECT_THAT(lines,
              Contains("  held       21.0ms (by streams 20.0ms, order 1.0ms), last for gpu1:8000"));
  EXPECT_THAT(lines, Contains("  predicted  first token after 214ms, 3.07k tokens cached, 180 "
                              "generated"));
  EXPECT_THAT(lines, Contains("  came true  first token after 230ms, 3.07k tokens cached, 175 "
                              "generated, ended after 3.10s"));
  EXPECT_THAT(lines, Contains("  shadow     gpu2:8000 at 0.900, when the scheduler's choice was "
                              "gpu1:8000 at 0.531"));
}

TEST(DecisionText, TellsApartRequestsOfOneId) {
  const auto attempt_of = [](int request) {
    return fmt::format(R"({{"request": {}, )", request) + refused.substr(1);
  };
  const Lines lines = text_of(attempt_of(1) + "," + attempt_of(2));

  EXPECT_EQ(lines.front(), "request 1 of 2, pool chat, 1.00s ago: refused");
  EXPECT_THAT(lines, Contains("request 2 of 2, pool chat, 1.00s ago: refused"));
  EXPECT_EQ(text_of(attempt_of(1)).front(), "pool chat, 1.00s ago: refused");
}

TEST(DecisionText, HasARowForEachCandidate) {
  const Lines lines = text_of(placed);

  const std::string& first = lines[lines.size() - 2];
  EXPECT_THAT(lines[lines.size() - 3], AllOf(StartsWith("BACKEND"), HasSubstr("COST"),
                                             HasSubstr("LOAD"), HasSubstr("EVICTION")));
  EXPECT_THAT(first, AllOf(StartsWith("gpu1:8000"), HasSubstr("0.531"), HasSubstr("202ms"),
                           HasSubstr("71.0ms"), HasSubstr("6.0ms"), HasSubstr("1.24k"),
                           HasSubstr("confirmed")));
  EXPECT_THAT(lines.back(), AllOf(StartsWith("a backend that is gone"), HasSubstr(" full ")));
  for (const std::string& line : text_of(placed, 60)) {
    if (line.starts_with("gpu1")) {
      EXPECT_LE(line.size(), 60u) << line;
    }
  }
}

TEST(DecisionText, TellsWhatARequestWasRefusedFor) {
  const Lines lines = text_of(refused);

  EXPECT_EQ(lines[0], "pool chat, 1.00s ago: refused");
  EXPECT_THAT(lines, Contains("  prompt     takes 480ms at least"));
  EXPECT_THAT(lines, Contains("  candidates it was not looked at"));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("predicted"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("held"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("shadow"))));
}

TEST(DecisionText, TellsOfEachAttempt) {
  const Lines lines = text_of(refused + "," + placed);

  EXPECT_EQ(lines[0], "pool chat, 1.00s ago: refused");
  EXPECT_THAT(lines, Contains("pool chat, 12.00s ago: finished, on gpu1:8000"));
  EXPECT_THAT(text_of(""), IsEmpty());
}

}  // namespace
}  // namespace evenkeel
