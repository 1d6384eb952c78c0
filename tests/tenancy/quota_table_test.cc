#include "evenkeel/tenancy/quota_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>
#include <vector>

namespace evenkeel {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

/// Noon of the last day of a month.
constexpr auto last_of_january =
    std::chrono::sys_days(std::chrono::January / 31 / 2026) + hours(12);

QuotaTime at(Duration passed) {
  return {
      Instant(hours(1)) + passed,
      last_of_january + std::chrono::duration_cast<std::chrono::system_clock::duration>(passed)};
}

Quota per_minute(std::uint64_t amount, double burst = 1) {
  return {.key = 1000, .rate = {amount, LimitPeriod::minute}, .burst = burst};
}

TEST(QuotaTable, GrantsTheAmountOfARateAtOnceAndThenAsItFlowsBack) {
  QuotaTable table(64);
  const Quota quota = per_minute(60);
  for (int i = 0; i < 60; ++i) EXPECT_TRUE(table.take(quota, 1, at({})).granted) << i;

  const QuotaState refused = table.take(quota, 1, at({}));
  EXPECT_FALSE(refused.granted);
  EXPECT_EQ(refused.remaining, 0U);
  EXPECT_EQ(refused.retry_after, seconds(1));
  EXPECT_EQ(refused.reset, minutes(1));
  EXPECT_FALSE(table.take(quota, 1, at(milliseconds(999))).granted);
  EXPECT_TRUE(table.take(quota, 1, at(seconds(1))).granted);
}

TEST(QuotaTable, LetsOnlyTheBurstComeAtOnce) {
  QuotaTable table(64);
  const Quota quota = per_minute(60, 0.1);
  EXPECT_FALSE(table.take(quota, 7, at({})).granted);
  EXPECT_TRUE(table.take(quota, 6, at({})).granted);
  EXPECT_EQ(table.take(quota, 1, at({})).retry_after, seconds(1));
}

TEST(QuotaTable, NeverGrantsMoreThanAllOfIt) {
  QuotaTable table(64);
  const QuotaState state = table.take(per_minute(60), 61, at({}));
  EXPECT_FALSE(state.granted);
  EXPECT_EQ(state.retry_after, QuotaState::never_granted);
  EXPECT_EQ(state.remaining, 60U);
}

TEST(QuotaTable, SettlesWhatWasTakenWithWhatWasUsed) {
  QuotaTable table(64);
  const Quota quota = per_minute(1000);
  table.take(quota, 600, at({}));
  table.settle(quota, 600, 100, at({}), at({}));
  EXPECT_EQ(table.look(quota, 0, at({})).remaining, 900U);

  table.settle(quota, 0, 1900, at({}), at({}));
  const QuotaState state = table.look(quota, 1, at({}));
  EXPECT_FALSE(state.granted);
  EXPECT_NEAR(seconds_of(state.retry_after), 60.06, 1e-6) << "what was used beyond it flows back";
}

TEST(QuotaTable, NeverGivesBackMoreThanAllOfIt) {
  QuotaTable table(64);
  const Quota quota = per_minute(1000);
  table.take(quota, 1000, at({}));
  table.settle(quota, 1000, 0, at({}), at(minutes(5)));
  table.take(quota, 10, at(minutes(5)));
  EXPECT_EQ(table.look(quota, 0, at(minutes(5))).remaining, 990U);
  EXPECT_FALSE(table.take(quota, 991, at(minutes(5))).granted);
}

TEST(QuotaTable, CountsADayFromMidnightUtc) {
  QuotaTable table(64);
  const Quota quota{.key = 8, .rate = {100, LimitPeriod::day}};
  EXPECT_TRUE(table.take(quota, 100, at({})).granted);
  const QuotaState refused = table.take(quota, 1, at(hours(11)));
  EXPECT_FALSE(refused.granted);
  EXPECT_EQ(refused.retry_after, hours(1));
  EXPECT_TRUE(table.take(quota, 100, at(hours(12))).granted);
}

TEST(QuotaTable, CountsAMonthFromItsFirstDay) {
  QuotaTable table(64);
  const Quota quota{.key = 8, .rate = {100, LimitPeriod::month}};
  table.take(quota, 60, at({}));
  EXPECT_EQ(table.take(quota, 50, at({})).retry_after, hours(12));
  EXPECT_EQ(table.look(quota, 0, at(hours(12))).remaining, 100U);
  EXPECT_EQ(table.take(quota, 101, at(hours(12))).retry_after, QuotaState::never_granted);
  EXPECT_EQ(table.look(quota, 0, at(hours(12))).reset, days(28));
}

TEST(QuotaTable, DoesNotGiveYesterdaysAmountBackToday) {
  QuotaTable table(64);
  const Quota quota{.key = 8, .rate = {100, LimitPeriod::day}};
  table.take(quota, 80, at({}));
  table.take(quota, 10, at(hours(13)));
  table.settle(quota, 80, 0, at({}), at(hours(13)));
  EXPECT_EQ(table.look(quota, 0, at(hours(13))).remaining, 90U);
  table.settle(quota, 80, 85, at({}), at(hours(13)));
  EXPECT_EQ(table.look(quota, 0, at(hours(13))).remaining, 85U) << "what exceeds it counts today";
}

TEST(QuotaTable, CountsThoseInside) {
  QuotaTable table(64);
  EXPECT_EQ(table.enter(5, 2, at({})), 0U);
  EXPECT_EQ(table.enter(5, 2, at({})), 1U);
  EXPECT_FALSE(table.enter(5, 2, at({})));
  table.leave(5);
  EXPECT_EQ(table.inside(5), 1U);
  EXPECT_EQ(table.enter(5, 2, at({})), 1U);
}

TEST(QuotaTable, ReusesTheEntriesOfUnusedQuotasAndForgetsNoOther) {
  QuotaTable table(64);
  Quota quota = per_minute(10);
  int granted = 0;
  for (quota.key = 0; quota.key < 100'000; quota.key += 1000)
    granted += table.take(quota, 10, at({})).granted ? 1 : 0;
  EXPECT_GE(granted, 32);
  EXPECT_LE(granted, 64);
  quota.key = 0;
  EXPECT_FALSE(table.take(quota, 1, at({})).granted) << "it is still used up";

  granted = 0;
  for (quota.key = 1'000'000; quota.key < 1'030'000; quota.key += 1000)
    granted += table.take(quota, 10, at(minutes(2))).granted ? 1 : 0;
  EXPECT_GE(granted, 25);
}

TEST(QuotaTable, ContinuesWithWhatAnotherProcessHasCounted) {
  QuotaTable table(64);
  const Quota rate = per_minute(60);
  const Quota day{.key = 8, .rate = {100, LimitPeriod::day}};
  const Quota month{.key = 8, .rate = {100, LimitPeriod::month}};
  table.take(rate, 60, at({}));
  table.take(day, 70, at({}));
  table.take(month, 80, at({}));
  table.enter(5, 2, at({}));
  const auto saved = table.saved(at(seconds(10)));
  EXPECT_EQ(saved.size(), 3U);

  // Its monotonic clock begins elsewhere.
  QuotaTable next(64);
  const auto later = [](Duration passed) { return QuotaTime{Instant(passed), at(passed).wall}; };
  for (const auto& each : saved) next.restore(each, later(seconds(20)));
  EXPECT_EQ(next.look(rate, 0, later(seconds(20))).remaining, 20U);
  EXPECT_EQ(next.look(day, 0, later(seconds(20))).remaining, 30U);
  EXPECT_EQ(next.look(month, 0, later(seconds(20))).remaining, 20U);
  EXPECT_EQ(next.inside(5), 0U);

  QuotaTable much_later(64);
  for (const auto& each : saved) much_later.restore(each, later(days(1)));
  EXPECT_TRUE(much_later.saved(later(days(1))).empty());
}

TEST(QuotaTable, IgnoresWhatNoProcessCanHaveSaved) {
  QuotaTable table(64);
  constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();
  for (std::uint64_t key = 0; key < 16; ++key) {
    table.restore({.key = key, .value = max}, at({}));
    table.restore({.key = key, .value = -max}, at({}));
  }
  EXPECT_TRUE(table.saved(at({})).empty());
}

/// A small table whose entries are given to other quotas all the time.
TEST(QuotaTable, KeepsExactCountsWhileThreadsCompete) {
  QuotaTable table(64);
  constexpr int threads = 4;
  constexpr std::uint64_t subjects = 200;
  std::atomic<std::uint64_t> granted{0};
  std::atomic<std::int64_t> max_inside{0};
  const auto work = [&](std::uint64_t seed) {
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      const Quota budget{.key = 42 * 8, .rate = {30'000, LimitPeriod::day}};
      if (table.take(budget, 1, at({})).granted) granted.fetch_add(1);
      const std::uint64_t subject = (i * 7 + seed) % subjects * 64 + 1'000'000;
      if (table.enter(subject, 3, at({}))) {
        max_inside = std::max<std::int64_t>(max_inside, table.inside(subject));
        table.leave(subject);
      }
      // Quotas that are free again at once, in the entries that the counts have left.
      const Quota passing{.key = subject, .rate = {1'000'000'000, LimitPeriod::second}};
      table.take(passing, 1, at(Duration(static_cast<Duration::rep>(i * 10))));
    }
  };
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) workers.emplace_back(work, i * 50);
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(granted, 30'000U);
  EXPECT_LE(max_inside, 3);
  for (std::uint64_t i = 0; i < subjects; ++i) EXPECT_EQ(table.inside(i * 64 + 1'000'000), 0U);
}

}  // namespace
}  // namespace evenkeel
