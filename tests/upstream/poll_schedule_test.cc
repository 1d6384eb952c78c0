#include "upstream/poll_schedule.h"

#include <gtest/gtest.h>

#include <chrono>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

TEST(PollSchedule, StartsAtARandomMomentOfTheFirstInterval) {
  Duration least = 1h;
  Duration most = 0s;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Duration initial_delay = PollSchedule(1s, seed).initial_delay();
    least = std::min(least, initial_delay);
    most = std::max(most, initial_delay);
  }

  EXPECT_GE(least, 0s);
  EXPECT_LT(least, 100ms);
  EXPECT_LT(most, 1s);
  EXPECT_GT(most, 900ms);
}

TEST(PollSchedule, KeepsItsIntervalWhileResponsesAreFast) {
  PollSchedule rhythm(250ms, 1);
  for (int i = 0; i < 10; ++i) rhythm.on_success(2ms);

  EXPECT_EQ(rhythm.interval(), 250ms);
  EXPECT_GE(rhythm.next_delay(), 237ms);
  EXPECT_LE(rhythm.next_delay(), 263ms);
}

TEST(PollSchedule, StretchesWhileResponsesAreSlowAndRecovers) {
  PollSchedule rhythm(250ms, 1);
  for (int i = 0; i < 3; ++i) rhythm.on_success(30ms);
  EXPECT_NEAR(seconds_of(rhythm.interval()), 1.0, 0.001) << "3 % of its server's time";

  for (int i = 0; i < 3; ++i) rhythm.on_success(5s);
  EXPECT_EQ(rhythm.interval(), PollSchedule::max_interval);

  rhythm.on_success(1ms);
  EXPECT_EQ(rhythm.interval(), 250ms);
}

TEST(PollSchedule, IgnoresOneSlowResponse) {
  PollSchedule rhythm(250ms, 1);
  for (int i = 0; i < 10; ++i) rhythm.on_success(i % 3 == 0 ? 2ms : 900ms);

  EXPECT_EQ(rhythm.interval(), 250ms);
}

TEST(PollSchedule, NeverPollsFasterThanConfigured) {
  PollSchedule rhythm(60s, 1);
  for (int i = 0; i < 3; ++i) rhythm.on_success(10s);

  EXPECT_EQ(rhythm.interval(), 60s);
}

TEST(PollSchedule, BacksOffAfterFailures) {
  PollSchedule rhythm(250ms, 1);
  Duration before = 0s;
  for (int i = 0; i < 4; ++i) {
    rhythm.on_failure();
    const Duration next_delay = rhythm.next_delay();
    EXPECT_GT(next_delay, before);
    before = next_delay;
  }
  for (int i = 0; i < 100; ++i) rhythm.on_failure();
  EXPECT_LE(rhythm.next_delay(), PollSchedule::max_retry_interval * 1.06);

  rhythm.on_success(1ms);
  EXPECT_LE(rhythm.next_delay(), 263ms);
}

TEST(PollSchedule, ExpiresAfterSomeIntervals) {
  PollSchedule rhythm(250ms, 1);
  EXPECT_EQ(rhythm.ttl(), PollSchedule::min_ttl);

  for (int i = 0; i < 3; ++i) rhythm.on_success(60ms);
  EXPECT_EQ(rhythm.ttl(), rhythm.interval() * 3);
}

}  // namespace
}  // namespace evenkeel
