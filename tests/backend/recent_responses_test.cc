#include "evenkeel/backend/recent_responses.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "backend/some_backends.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

TEST(RecentResponses, AreUnknownWithoutAny) {
  const auto recent = std::make_unique<RecentResponses>();

  const RecentSummary summary = recent->summary(noon);

  EXPECT_FALSE(summary.first_byte.median || summary.first_byte.p99);
  EXPECT_FALSE(summary.total.median || summary.total.p99);
  EXPECT_EQ(summary.failures_per_second, 0);
}

TEST(RecentResponses, GivePercentilesWithinATenth) {
  for (const Duration took : {Duration(200us), Duration(1ms), Duration(37ms), Duration(2s),
                              Duration(60s), Duration(500s)}) {
    const auto recent = std::make_unique<RecentResponses>();
    recent->count_first_byte(took, noon);
    const double expected = seconds_of(took);
    const RecentSummary summary = recent->summary(noon);
    EXPECT_NEAR(seconds_of(*summary.first_byte.median), expected, expected / 9) << expected;
    EXPECT_NEAR(seconds_of(*summary.first_byte.p99), expected, expected / 9) << expected;
  }
}

TEST(RecentResponses, TellTheMedianFromTheTail) {
  const auto recent = std::make_unique<RecentResponses>();
  for (int i = 0; i < 97; ++i) recent->count_total(100ms, noon);
  for (int i = 0; i < 3; ++i) recent->count_total(5s, noon);

  const RecentLatency total = recent->summary(noon).total;

  EXPECT_NEAR(seconds_of(*total.median), 0.1, 0.02);
  EXPECT_NEAR(seconds_of(*total.p99), 5, 0.6);
}

TEST(RecentResponses, ShowWithinSecondsThatABusyBackendBecameSlow) {
  const auto recent = std::make_unique<RecentResponses>();
  for (int i = 0; i < 600; ++i) recent->count_first_byte(100ms, noon + i * 100ms);
  const Instant slowed = noon + 60s;

  for (int i = 0; i < 50; ++i) recent->count_first_byte(1s, slowed + i * 100ms);

  const RecentLatency first_byte = recent->summary(slowed + 5s).first_byte;
  EXPECT_GT(seconds_of(*first_byte.median), 0.8);
  EXPECT_GT(seconds_of(*first_byte.p99), 0.8);
}

TEST(RecentResponses, ForgetAfterAMinute) {
  const auto recent = std::make_unique<RecentResponses>();
  recent->count_first_byte(100ms, noon);
  recent->count_failure(noon);

  EXPECT_TRUE(recent->summary(noon + 50s).first_byte.median);
  EXPECT_FALSE(recent->summary(noon + 61s).first_byte.median);
  recent->count_first_byte(1s, noon + 60s);  // the slot is used again

  EXPECT_NEAR(seconds_of(*recent->summary(noon + 60s).first_byte.median), 1, 0.1);
  EXPECT_EQ(recent->summary(noon + 60s).failures_per_second, 0);
}

TEST(RecentResponses, CountFailuresApart) {
  const auto recent = std::make_unique<RecentResponses>();
  for (int i = 0; i < 100; ++i) recent->count_failure(noon + i * 100ms);

  const RecentSummary summary = recent->summary(noon + 10s);

  EXPECT_GT(summary.failures_per_second, 6);
  EXPECT_LE(summary.failures_per_second, 10);
  EXPECT_FALSE(summary.total.median);
}

TEST(RecentResponses, CanBeCountedByManyThreads) {
  const auto recent = std::make_unique<RecentResponses>();
  constexpr int threads = 4;
  constexpr int responses = 20'000;
  {
    std::vector<std::jthread> writers;
    for (int thread = 0; thread < threads; ++thread) {
      writers.emplace_back([&] {
        for (int i = 0; i < responses; ++i) recent->count_total(10ms, noon + i * 1ms);
      });
    }
    for (int i = 0; i < 100; ++i) static_cast<void>(recent->summary(noon + 20s));
  }

  EXPECT_NEAR(seconds_of(*recent->summary(noon + 20s).total.median), 0.01, 0.001);
}

}  // namespace
}  // namespace evenkeel::testing
