#include "proxy/attempt_outcome.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

constexpr AttemptResult failed{.outcome = AttemptOutcome::failed, .status = 500};

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

TEST(RecordAttempt, TakesARefusalForThatOfALaterRequestOnlyIfItWasSentLater) {
  const Backend backend({.id = "a", .address = "a:1"});
  const Instant parked = Instant{} + 1h;
  const AttemptResult refused = classify(429, 30s);
  record_attempt(backend, refused, parked - 2s, parked);

  ASSERT_TRUE(backend.try_acquire(parked + 1ms));
  record_attempt(backend, refused, parked - 1s, parked + 1s);
  EXPECT_TRUE(backend.load().takes_overflow(parked + 1001ms));

  record_attempt(backend, refused, parked + 1ms, parked + 1s);
  EXPECT_FALSE(backend.load().takes_overflow(parked + 1001ms));
}

class TrialTest : public ::testing::Test {
 protected:
  TrialTest() {
    backend.load().eject(EjectionReason::consecutive, 10s, ejected);
    backend.load().set_ejection(Ejection::half_open, ejected + 10s);
    backend.put_back(OutOfRotation::ejected);
  }

  const Backend backend{{.id = "a", .address = "a:1"}};
  const Instant ejected = Instant{} + 1h;
};

TEST_F(TrialTest, IsNotDecidedByTheSuccessOfAnEarlierRequest) {
  record_attempt(backend, {}, ejected - 1s, ejected + 11s);
  EXPECT_EQ(backend.load().ejection(), Ejection::half_open);

  record_attempt(backend, {}, ejected + 10s, ejected + 11s);
  EXPECT_EQ(backend.load().ejection(), Ejection::none);
}

TEST_F(TrialTest, IsNotDecidedByTheFailureOfAnEarlierRequest) {
  record_attempt(backend, failed, ejected - 1s, ejected + 11s);
  EXPECT_EQ(backend.load().failures_in_a_row(), 0u);
  EXPECT_FALSE(backend.load().in_backoff(ejected + 11s));
  EXPECT_EQ(backend.load().failed_responses_total(), 1u) << "it is counted";

  record_attempt(backend, failed, ejected + 10s, ejected + 11s);
  EXPECT_EQ(backend.load().failures_in_a_row(), 1u);
}

}  // namespace
}  // namespace evenkeel
