#include "evenkeel/backend/peak_ewma.h"

#include <gtest/gtest.h>

#include "backend/some_backends.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

TEST(PeakEwma, IsEmptyBeforeTheFirstResponse) {
  PeakEwma average;
  EXPECT_EQ(average.samples(), 0u);

  average.record(200ms, noon);

  EXPECT_EQ(average.samples(), 1u);
  EXPECT_NEAR(average.seconds(), 0.2, 1e-6);
}

TEST(PeakEwma, RisesWithAFewSlowResponses) {
  PeakEwma average;
  average.record(100ms, noon);

  for (int i = 0; i < 4; ++i) average.record(1s, noon + 1s);

  EXPECT_GT(average.seconds(), 0.6);
  EXPECT_LT(average.seconds(), 1.0);
}

TEST(PeakEwma, FallsSlowlyAtASteadyRate) {
  PeakEwma average;
  average.record(1s, noon);

  for (int i = 0; i < 4; ++i) average.record(100ms, noon);

  EXPECT_GT(average.seconds(), 0.85);
}

TEST(PeakEwma, FallsWithTime) {
  PeakEwma average;
  average.record(1s, noon);

  average.record(100ms, noon + 10s);

  EXPECT_NEAR(average.seconds(), 0.55, 1e-3);
}

TEST(PeakEwma, CountsAQuickFailureAsASlowResponse) {
  PeakEwma average;
  average.record(100ms, noon);

  average.record_failure(1ms, noon);

  EXPECT_GT(average.seconds(), 0.1);
}

TEST(PeakEwma, IsNeverLoweredByAFailure) {
  PeakEwma average;
  average.record(5s, noon);

  for (int i = 0; i < 20; ++i) average.record_failure(1ms, noon + 10s);

  EXPECT_NEAR(average.seconds(), 5, 1e-6);
  EXPECT_EQ(average.age(noon + 10s), Duration(0s)) << "it must not grow old and be forgiven";
}

TEST(PeakEwma, IsRaisedByAResponseThatDidNotCome) {
  PeakEwma average;
  average.record_at_least(10ms, noon);
  EXPECT_EQ(average.samples(), 0u) << "the client left early, which says little";
  average.record(100ms, noon);

  average.record_at_least(50ms, noon);
  EXPECT_NEAR(average.seconds(), 0.1, 1e-6);
  average.record_at_least(2s, noon);

  EXPECT_GT(average.seconds(), 0.5);
}

TEST(PeakEwma, LearnsNothingFromANeutralResponse) {
  PeakEwma average;
  average.record_neutral(noon);
  EXPECT_EQ(average.samples(), 1u);
  EXPECT_EQ(average.seconds(), 0);

  average.record(100ms, noon);
  average.record_neutral(noon);

  EXPECT_NEAR(average.seconds(), 0.1, 1e-6);
}

TEST(PeakEwma, ReportsTheAgeOfTheLastSample) {
  PeakEwma average;
  average.record(100ms, noon);

  EXPECT_EQ(average.age(noon + 3s), Duration(3s));
  EXPECT_EQ(average.age(noon - 1s), Duration(0s)) << "workers do not agree on the moment";
}

TEST(PeakEwma, IsEmptyAfterForget) {
  PeakEwma average;
  average.record(10s, noon);

  average.forget();
  EXPECT_EQ(average.samples(), 0u);
  average.record(100ms, noon + 1s);

  EXPECT_NEAR(average.seconds(), 0.1, 1e-6);
}

}  // namespace
}  // namespace evenkeel::testing
