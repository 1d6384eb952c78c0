#include "evenkeel/pool/wait_forecast.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""h;

/// Ticks for a while at a steady rate.
std::uint64_t run(WaitForecast& forecast, Instant& now, std::uint64_t completed, int per_second,
                  int seconds) {
  for (int i = 0; i < seconds * 10; ++i) {
    now += 100ms;
    completed += static_cast<std::uint64_t>(per_second) / 10;
    forecast.tick(completed, now);
  }
  return completed;
}

TEST(WaitForecast, DividesTheQueueByTheRate) {
  WaitForecast forecast;
  Instant now{1h};
  run(forecast, now, 0, 20, 60);

  EXPECT_NEAR(static_cast<double>(forecast.wait_for(40) / 1ms), 2000, 100);
  EXPECT_EQ(forecast.wait_for(1), WaitForecast::min_wait);
  EXPECT_EQ(forecast.wait_for(1'000'000), WaitForecast::max_wait);
}

TEST(WaitForecast, SaysASecondWhileNoRateIsKnown) {
  WaitForecast forecast;
  EXPECT_EQ(forecast.wait_for(100), 1s);
  forecast.tick(5, Instant{1h});
  EXPECT_EQ(forecast.wait_for(100), 1s);
}

TEST(WaitForecast, SaysASecondAfterAnIdleTime) {
  WaitForecast forecast;
  Instant now{1h};
  const std::uint64_t completed = run(forecast, now, 0, 20, 60);
  run(forecast, now, completed, 0, 300);
  EXPECT_EQ(forecast.wait_for(2), 1s);
}

TEST(WaitForecast, FollowsTheRate) {
  WaitForecast forecast;
  Instant now{1h};
  const std::uint64_t completed = run(forecast, now, 0, 100, 60);
  run(forecast, now, completed, 10, 60);
  EXPECT_NEAR(static_cast<double>(forecast.wait_for(20) / 1ms), 2000, 200);
}

TEST(WaitForecast, IgnoresThatBackendsWereRemoved) {
  WaitForecast forecast;
  Instant now{1h};
  run(forecast, now, 1000, 20, 60);
  now += 600ms;
  forecast.tick(3, now);
  EXPECT_NEAR(static_cast<double>(forecast.wait_for(40) / 1ms), 2000, 100);
}

TEST(WaitForecast, TakesNoRateFromTheDifferenceToOtherBackends) {
  WaitForecast forecast;
  Instant now{1h};
  run(forecast, now, 1000, 20, 60);
  forecast.forget_sample();
  run(forecast, now, 900'000, 20, 1);
  EXPECT_NEAR(static_cast<double>(forecast.wait_for(40) / 1ms), 2000, 100);
}

}  // namespace
}  // namespace evenkeel
