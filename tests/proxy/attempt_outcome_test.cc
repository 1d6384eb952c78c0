#include "proxy/attempt_outcome.h"

#include <gtest/gtest.h>

#include <array>
#include <ctime>
#include <string>
#include <string_view>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

struct Answer {
  int status = 200;
  std::string_view grpc_status;
  std::string_view retry_after;
};

AttemptResult outcome_of(const Answer& answer, bool is_grpc = true) {
  Request request;
  if (is_grpc) request.info.outcome.grpc_status = 0;
  Response response{.status = answer.status};
  if (!answer.grpc_status.empty()) response.fields.add("grpc-status", answer.grpc_status);
  if (!answer.retry_after.empty()) {
    response.fields.add("retry-after", answer.retry_after, FieldId::retry_after);
  }
  return classify_head(request, response);
}

TEST(ClassifyHead, GoesByTheStatusOfACallThatEndsWithItsHead) {
  EXPECT_EQ(outcome_of({.grpc_status = "14"}).outcome, AttemptOutcome::overloaded);
  EXPECT_EQ(outcome_of({.grpc_status = "8"}).outcome, AttemptOutcome::overloaded);
  EXPECT_EQ(outcome_of({.grpc_status = "13"}).outcome, AttemptOutcome::failed);
  EXPECT_EQ(outcome_of({.grpc_status = "no number"}).outcome, AttemptOutcome::failed);
  EXPECT_EQ(outcome_of({.grpc_status = "3"}).outcome, AttemptOutcome::client_error);
  EXPECT_EQ(outcome_of({.grpc_status = "0"}).outcome, AttemptOutcome::success);
  EXPECT_EQ(outcome_of({}).outcome, AttemptOutcome::success) << "its trailers will tell";
  EXPECT_EQ(outcome_of({.grpc_status = "14"}, false).outcome, AttemptOutcome::success);
}

TEST(ClassifyHead, ReadsHowLongARefusalLasts) {
  EXPECT_EQ(outcome_of({.status = 503, .retry_after = "7"}, false).retry_after, 7s);
  EXPECT_EQ(outcome_of({.grpc_status = "14", .retry_after = "7"}).retry_after, 7s);
  EXPECT_EQ(outcome_of({.status = 503}).retry_after, 0s);
}

Duration time_of(std::string_view field, std::string_view value) {
  Response response{.status = 503};
  response.fields.add(field, value);
  return classify_head(Request{}, response).retry_after;
}

TEST(ClassifyHead, ReadsTimesOfAnyLengthAndRoundsDecimalsUp) {
  for (const std::string_view huge : {"99999999999", "4294967295", "99999999999999999999999.5"}) {
    EXPECT_EQ(time_of("retry-after", huge), 24h) << huge;
    EXPECT_EQ(time_of("retry-after-ms", huge), 24h) << huge;
  }
  EXPECT_EQ(time_of("retry-after", "1.5"), 2s);
  EXPECT_EQ(time_of("retry-after", "2.0"), 2s);
  EXPECT_EQ(time_of("retry-after-ms", "250.25"), 251ms);
  for (const std::string_view wrong :
       {"-1", "+1", "1s", "1.5s", "1.5.5", "0x10", ".", ".5", "soon"})
    EXPECT_EQ(time_of("retry-after", wrong), 0s) << wrong;
}

/// As an IMF-fixdate.
std::string date_of(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 64> text{};
  return {text.data(),
          std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

TEST(ClassifyHead, ReadsADateAsTheTimeUntilThen) {
  const std::time_t now = std::time(nullptr);
  for (const int months : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) {
    EXPECT_EQ(time_of("retry-after", date_of(now + 86'401 + months * 2'629'746)), 24h) << months;
  }
  const Duration hour = time_of("retry-after", date_of(now + 3600));
  EXPECT_LE(hour, 1h);
  EXPECT_GT(hour, 50min);
  EXPECT_EQ(time_of("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), 0s) << "it has passed";

  EXPECT_EQ(time_of("retry-after", "Fri, 06 Nov 2893 08:49:37 GMT"), 24h);
  EXPECT_EQ(time_of("retry-after", "Fri, 06 Nov 2426 08:49:37 GMT"), 24h);
  EXPECT_EQ(time_of("retry-after", "Fri, 06 Nov 9999 08:49:37 GMT"), 24h);
  for (const std::string_view wrong :
       {"Fri, 31 Feb 2893 08:49:37 GMT", "Fri, 06 Nov 2893 08:49:37 UTC",
        "Fri, 06 nov 2893 08:49:37 GMT", "Fri, 06 anF 2893 08:49:37 GMT",
        "Fri, 06 Nov 2893 24:49:37 GMT", "Fri, 06 Nov 28x3 08:49:37 GMT",
        "Fri, 06 Nov 2893 08:49:37 GMT ", "Friday, 06-Nov-93 08:49:37 GMT"}) {
    EXPECT_EQ(time_of("retry-after", wrong), 0s) << wrong;
  }
}

}  // namespace
}  // namespace evenkeel
