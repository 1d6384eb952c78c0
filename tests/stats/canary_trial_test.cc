#include "evenkeel/stats/canary_trial.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace evenkeel {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr CanaryBounds bounds{
    .error_rate = 0.1, .ttft = seconds(1), .window = seconds(80), .min_requests = 20};
const Instant start{std::chrono::hours(100)};

// Counts so many, and returns how many were taken until the trial ended; all if it did not.
int count(CanaryTrial& trial, int requests, bool failed, Duration first_token, Instant now) {
  for (int i = 0; i < requests; ++i) {
    if (trial.count(failed, first_token, now)) return i + 1;
  }
  return requests;
}

TEST(CanaryTrial, EndsWithTheFailureThatIsTooMany) {
  CanaryTrial trial(bounds);
  count(trial, 18, false, milliseconds(10), start);
  EXPECT_EQ(count(trial, 2, true, {}, start), 2);
  EXPECT_FALSE(trial.has_ended()) << "two of 20 are a tenth";
  EXPECT_TRUE(trial.count(true, {}, start));
  EXPECT_EQ(trial.verdict(), CanaryVerdict::too_many_errors);
  EXPECT_EQ(trial.counts(start + std::chrono::hours(1)).failures, 3U) << "as when it ended";
}

TEST(CanaryTrial, ConcludesNothingFromAFewRequests) {
  CanaryTrial trial(bounds);
  EXPECT_EQ(count(trial, 19, true, {}, start), 19);
  EXPECT_FALSE(trial.has_ended());
  EXPECT_TRUE(trial.count(true, {}, start));
}

TEST(CanaryTrial, EndsWhenMoreThanOneFirstTokenIn20IsLate) {
  CanaryTrial trial(bounds);
  count(trial, 38, false, seconds(1), start);
  EXPECT_EQ(count(trial, 2, false, milliseconds(1001), start), 2);
  EXPECT_FALSE(trial.has_ended());
  EXPECT_TRUE(trial.count(false, milliseconds(1001), start));
  EXPECT_EQ(trial.verdict(), CanaryVerdict::too_slow);
}

TEST(CanaryTrial, HasNoBoundThatIsNotGiven) {
  CanaryTrial errors({.error_rate = 0.1, .window = seconds(80), .min_requests = 1});
  count(errors, 100, false, std::chrono::hours(1), start);
  EXPECT_FALSE(errors.has_ended());
  CanaryTrial times({.ttft = seconds(1), .window = seconds(80), .min_requests = 1});
  count(times, 100, true, {}, start);
  EXPECT_FALSE(times.has_ended());
}

TEST(CanaryTrial, ForgetsWhatIsOlderThanTheWindow) {
  CanaryTrial trial(bounds);
  count(trial, 15, true, {}, start);
  EXPECT_EQ(trial.counts(start + seconds(60)).requests, 15U);
  EXPECT_EQ(trial.counts(start + seconds(80)).requests, 0U);
  EXPECT_EQ(count(trial, 15, true, {}, start + seconds(80)), 15);
  EXPECT_FALSE(trial.has_ended());
}

TEST(CanaryTrial, BeginsAgainWithNothingCounted) {
  CanaryTrial trial(bounds);
  count(trial, 20, true, {}, start);
  ASSERT_TRUE(trial.has_ended());
  EXPECT_FALSE(trial.count(true, {}, start)) << "it ends once";
  trial.restart();
  EXPECT_FALSE(trial.has_ended());
  EXPECT_EQ(trial.counts(start).requests, 0U);
}

TEST(CanaryTrial, KeepsRatiosWhereAPartIsFull) {
  CanaryTrial trial({.error_rate = 0.5, .window = seconds(80), .min_requests = 1});
  for (int i = 0; i < 100'000; ++i) {
    trial.count(i % 4 == 3, {}, start);
    ASSERT_LE(trial.counts(start).requests, 16'383U);
  }
  const auto counts = trial.counts(start);
  EXPECT_NEAR(counts.failures, 0.25 * counts.requests, 0.01 * counts.requests);
  EXPECT_LT(count(trial, 20'000, true, {}, start), 20'000) << "it ends with a burst of failures";
}

TEST(CanaryTrial, LosesNothingThatThreadsCountAtOnce) {
  CanaryTrial trial({.error_rate = 0.5, .window = seconds(80), .min_requests = 3999});
  std::atomic<int> ends = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) ends += trial.count(true, {}, start) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ends, 1);
  EXPECT_GE(trial.counts(start).failures, 3999U);
}

}  // namespace
}  // namespace evenkeel
