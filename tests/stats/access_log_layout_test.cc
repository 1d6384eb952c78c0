// Lines in other formats than the usual JSON.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "evenkeel/stats/access_log_formatter.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;
using ::testing::HasSubstr;
using ::testing::Not;

const AttemptRecord attempts[] = {
    {.backend = "gpu1:8000", .connect = 3s, .fault = Fault::connect_failed},
    {.backend = "gpu2:8000", .connect = 250us}};

AccessLogEntry ordinary() {
  return {.time = std::chrono::system_clock::time_point(1'795'260'631s + 4'205us),
          .request_id = "r-1",
          .client = "203.0.113.9",
          .protocol = "HTTP/1.1",
          .method = "GET",
          .host = "api.example.com",
          .path = "/v1/models?x=1",
          .tenant = "acme",
          .status = 200,
          .attempts = attempts,
          .bytes_out = 18'230,
          .duration = 2'345'678us,
          .user_agent = "curl/8.5 [x]",
          .referer = "https://example.org/"};
}

std::string line_of(const AccessLogEntry& entry, std::string_view format,
                    const std::vector<std::string>& fields = {}) {
  auto buffer = std::make_unique<AccessLogBuffer>();  // on the heap, where ASan sees every overrun
  AccessLogFormatter formatter;
  formatter.set_layout(access_log_layout(format, fields));
  return std::string(formatter.format(entry, *buffer));
}

TEST(AccessLogLayout, CombinedIsTheFormatOfNginx) {
  EXPECT_EQ(line_of(ordinary(), "combined"),
            R"(203.0.113.9 - acme [21/Nov/2026:11:30:31 +0000] "GET /v1/models?x=1 HTTP/1.1" )"
            R"(200 18230 "https://example.org/" "curl/8.5 [x]")"
            "\n");
  EXPECT_EQ(line_of({}, "combined"), "- - - [01/Jan/1970:00:00:00 +0000] \"-\" - 0 \"-\" \"-\"\n");
}

TEST(AccessLogLayout, JsonHasTheChosenFieldsInTheirOrder) {
  EXPECT_EQ(line_of(ordinary(), "json", {"status", "user_agent", "request", "time_local", "peer"}),
            R"({"status":200,"user_agent":"curl/8.5 [x]","request":"GET /v1/models?x=1 HTTP/1.1",)"
            R"("time_local":"21/Nov/2026:11:30:31 +0000"})"
            "\n");
  EXPECT_EQ(line_of(ordinary(), "json", {"peer"}), "{}\n") << "absent, as in the usual line";
  EXPECT_EQ(line_of({}, "json", {"request", "reason"}), "{\"request\":null,\"reason\":null}\n");
}

TEST(AccessLogLayout, JsonHasTheIdOfAKeyWhereItIsNamed) {
  AccessLogEntry entry = ordinary();
  EXPECT_EQ(line_of(entry, "json", {"status", "key"}), "{\"status\":200}\n");
  entry.key = "0123abcd";
  EXPECT_EQ(line_of(entry, "json", {"status", "key"}), "{\"status\":200,\"key\":\"0123abcd\"}\n");
  EXPECT_EQ(line_of(entry, "json").find("0123abcd"), std::string::npos);
}

TEST(AccessLogLayout, JsonOfAllFieldsIsTheUsualLine) {
  std::vector<std::string> usual = access_log_field_names();
  usual.resize(static_cast<std::size_t>(AccessLogField::aborted) + 1);
  const AccessLogInference model{.model = "llama", .task = "chat", .max_tokens = 7};
  AccessLogEntry entry = ordinary();
  for (const AccessLogInference* each : {(const AccessLogInference*)nullptr, &model}) {
    entry.inference = each;
    EXPECT_EQ(line_of(entry, "json", usual), line_of(entry, "json"));
  }
}

TEST(AccessLogLayout, LogfmtLeavesOutWhatIsNotKnown) {
  EXPECT_EQ(line_of(ordinary(), "logfmt"),
            "time=2026-11-21T11:30:31.004205Z request_id=r-1 client=203.0.113.9 "
            "protocol=HTTP/1.1 method=GET host=api.example.com path=\"/v1/models?x=1\" tenant=acme "
            "status=200 attempts=\"gpu1:8000/connect_failed,gpu2:8000/answered\" bytes_in=0 "
            "bytes_out=18230 duration_ms=2345.678 head_ms=0.000 wait_ms=0.000 connect_ms=0.000 "
            "retry_ms=0.000 overhead_ms=0.000 aborted=false\n");
}

TEST(AccessLogLayout, ATemplateNamesFieldsWithAndWithoutBraces) {
  EXPECT_EQ(line_of(ordinary(), "$status ${duration_ms}ms $host$method, $model $attempts."),
            "200 2345.678ms api.example.comGET, - "
            "gpu1:8000/connect_failed,gpu2:8000/answered.\n");
  EXPECT_EQ(line_of(ordinary(), "time=$time end"), "time=2026-11-21T11:30:31.004205Z end\n");
}

TEST(AccessLogLayout, OnlyTemplatesWithTheFieldsOfClientsShowThem) {
  EXPECT_TRUE(access_log_layout("combined", {}).shows_client_fields);
  EXPECT_TRUE(access_log_layout("json", {"referer"}).shows_client_fields);
  EXPECT_FALSE(access_log_layout("json", {}).shows_client_fields);
  EXPECT_FALSE(access_log_layout("logfmt", {}).shows_client_fields);
  EXPECT_FALSE(access_log_layout("$status", {}).shows_client_fields);
}

TEST(AccessLogLayout, HostileValuesForgeNoLineAndNoField) {
  AccessLogEntry entry = ordinary();
  entry.path = "/\"] 200\n10.0.0.1 - - [\x1b\x7f\xff=,|\\"sv;
  entry.user_agent = entry.path;
  entry.method = "G T";

  EXPECT_EQ(line_of(entry, "combined"),
            R"(203.0.113.9 - acme [21/Nov/2026:11:30:31 +0000] "G\x20T )"
            R"(/\x22]\x20200\x0A10.0.0.1\x20-\x20-\x20[\x1B\x7F\xFF=,|\x5C HTTP/1.1" 200 18230 )"
            R"("https://example.org/" )"
            R"("/\x22] 200\x0A10.0.0.1 - - [\x1B\x7F\xFF=,|\x5C")"
            "\n");
  EXPECT_EQ(line_of(entry, "logfmt", {"method", "path", "status"}),
            R"(method="G T" path="/\"] 200\n10.0.0.1 - - [\u001b\u007f\u00ff=,|\\" status=200)"
            "\n");
  // The byte behind the field ends its value.
  EXPECT_THAT(line_of(entry, "[$path] $status"), HasSubstr(R"([/\x22\x5D 200\x0A)"));
  EXPECT_THAT(line_of(entry, "$path|$status"), HasSubstr(R"(=,\x7C\x5C|200)"));
  EXPECT_THAT(line_of(entry, "$path$status"), HasSubstr(R"(/\x22]\x20200\x0A)"));
}

TEST(AccessLogLayout, ALineWithAllFieldsOfGreatLengthFits) {
  const std::string text(9000, '\n');
  const std::vector<AttemptRecord> many(AttemptList::capacity, AttemptRecord{.backend = text});
  const AccessLogInference model{.model = text, .task = text, .finish_reason = text};
  const AccessLogEntry entry{.request_id = text,
                             .trace_id = text,
                             .client = text,
                             .peer = text,
                             .listener = text,
                             .protocol = text,
                             .method = text,
                             .host = text,
                             .path = text,
                             .route = text,
                             .pool = text,
                             .backend = text,
                             .priority = text,
                             .tenant = text,
                             .reason = text,
                             .attempts = many,
                             .inference = &model,
                             .user_agent = text,
                             .referer = text};
  const auto& names = access_log_field_names();
  std::string format;
  for (const std::string& name : names) format += "${" + name + "}";
  format.resize(max_template_bytes, '-');
  for (const std::string& line :
       {line_of(entry, "json", names), line_of(entry, "logfmt", names), line_of(entry, format)}) {
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    EXPECT_THAT(line, HasSubstr("..."));
  }
}

TEST(AccessLogTemplate, IsSplitAtItsNames) {
  EXPECT_FALSE(parse_template("$"));
  EXPECT_FALSE(parse_template("a$ b"));
  EXPECT_FALSE(parse_template("${status"));
  EXPECT_FALSE(parse_template("${}"));
  const auto parts = parse_template("a$b_1c-${d}e");
  ASSERT_TRUE(parts);
  ASSERT_EQ(parts->size(), 3u);
  EXPECT_EQ((*parts)[0].name, "b_1c");
  EXPECT_EQ((*parts)[1].text, "-");
  EXPECT_EQ((*parts)[1].name, "d");
  EXPECT_EQ((*parts)[2].text, "e");
}

}  // namespace
}  // namespace evenkeel::testing
