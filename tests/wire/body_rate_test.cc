#include "wire/body_rate.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

BodyRate rate_of(std::uint64_t bytes_per_second) {
  ListenerConfig options;
  options.limits.body_rate_bytes = bytes_per_second;
  return BodyRate(options);
}

TEST(BodyRate, GivesTenSecondsAtFirst) {
  const Instant now = Clock::now();
  BodyRate rate = rate_of(1024);
  EXPECT_EQ(rate.deadline(now), now + 10s);
  rate.waited(4s);
  EXPECT_EQ(rate.deadline(now), now + 6s);
  rate.waited(7s);
  EXPECT_EQ(rate.deadline(now), now);
}

TEST(BodyRate, LetsABodyAtTheRateTakeAsLongAsItWill) {
  BodyRate rate = rate_of(1024);
  for (int second = 0; second < 1000; ++second) {
    rate.waited(1s);
    rate.received(1024);
  }
  const Instant now = Clock::now();
  EXPECT_NEAR(seconds_of(rate.deadline(now) - now), 10, 0.001);
}

TEST(BodyRate, EndsABodyBelowTheRate) {
  BodyRate rate = rate_of(1024);
  const Instant now = Clock::now();
  int seconds = 0;
  for (; rate.deadline(now) >= now + 1s && seconds < 1000; ++seconds) {
    rate.waited(1s);
    rate.received(512);
  }
  EXPECT_NEAR(seconds, 20, 1);
}

TEST(BodyRate, SavesNoMoreTimeThanASingleWaitMayTake) {
  BodyRate rate = rate_of(1024);
  rate.received(std::size_t{1} << 40);
  const Instant now = Clock::now();
  EXPECT_EQ(rate.deadline(now), now + ListenerConfig().timeouts.body);
}

TEST(BodyRate, OfZeroNeverEnds) {
  BodyRate rate = rate_of(0);
  rate.waited(1h);
  EXPECT_EQ(rate.deadline(Clock::now()), never);
}

}  // namespace
}  // namespace evenkeel
