#include "evenkeel/backend/signals.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

const Instant start = Instant(1000s);

TEST(LoadReports, ReplaceTheCountsOfAPollOnlyTogether) {
  Signals signals;
  signals.publish({.running = 4, .waiting = 1, .kv_cache_ratio = 0.1}, start, 5);

  signals.report({.waiting = 9, .kv_cache_ratio = 0.6}, start + 1s, 8);
  EXPECT_EQ(signals.values().waiting, 1) << "running is as old";
  EXPECT_EQ(signals.values().kv_cache_ratio, 0.6);
  EXPECT_EQ(signals.in_flight_at_poll(), 5u);
  EXPECT_EQ(signals.age(start + 1s), 1s);

  signals.report({.running = 7, .waiting = 9}, start + 1s, 8);
  EXPECT_EQ(signals.values().running, 7);
  EXPECT_EQ(signals.values().waiting, 9);
  EXPECT_EQ(signals.values().kv_cache_ratio, 0.6);
  EXPECT_EQ(signals.in_flight_at_poll(), 8u);
  EXPECT_EQ(signals.age(start + 1s), 0s);
}

TEST(LoadReports, CountWhereNothingIsPolled) {
  Signals signals;
  signals.report({.waiting = 9, .kv_cache_ratio = 0.6}, start, 8);
  signals.report({.waiting = 2, .kv_cache_ratio = 0.5}, start + 1s, 3);

  EXPECT_EQ(signals.values().waiting, 2);
  EXPECT_EQ(signals.values().kv_cache_ratio, 0.5);
  EXPECT_TRUE(std::isnan(signals.values().running));
  EXPECT_EQ(signals.age(start + 1s), 0s);
}

TEST(LoadReports, ExpireWhileTheirAgeGrows) {
  Signals signals;
  signals.report({.waiting = 9, .kv_cache_ratio = 0.6}, start, 8);
  signals.expire_report(start + 2s);
  EXPECT_EQ(signals.values().waiting, 9);

  signals.expire_report(start + 2100ms);
  EXPECT_FALSE(signals.values().any());
  EXPECT_EQ(signals.age(start + 3s), 3s);
}

TEST(LoadReports, DoNotExpireOnceTheyArePolled) {
  Signals signals;
  signals.report({.waiting = 9}, start, 8);
  signals.publish({.running = 4, .waiting = 1}, start + 1s, 5);
  signals.expire_report(start + 1h);
  EXPECT_EQ(signals.values().waiting, 1) << "the poller's matter";
}

}  // namespace
}  // namespace evenkeel
