#include "evenkeel/backend/backend.h"

#include <gtest/gtest.h>

#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

TEST(Slots, NeverExceedTheLimit) {
  Slots slots;
  slots.set_limit(2);

  const bool first = slots.try_acquire();
  const bool second = slots.try_acquire();
  const bool third = slots.try_acquire();

  EXPECT_TRUE(first && second);
  EXPECT_FALSE(third);
  EXPECT_FALSE(slots.has_room());
  EXPECT_EQ(slots.in_flight(), 2u);
  EXPECT_EQ(slots.picks_total(), 2u);
}

TEST(Slots, AreAlwaysFreeWithoutALimit) {
  Slots slots;

  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(slots.try_acquire());

  EXPECT_TRUE(slots.has_room());
  EXPECT_EQ(slots.in_flight(), 1000u);
}

TEST(BackendStats, HaveNoLatencyBeforeTheFirstResponse) {
  BackendStats stats;
  EXPECT_FALSE(stats.recent_summary(noon).first_byte.median);

  for (int i = 0; i < 3; ++i) stats.record_first_byte(100ms, noon);
  stats.record_served(2s, noon);

  const RecentSummary recent = stats.recent_summary(noon);
  EXPECT_NEAR(seconds_of(*recent.first_byte.median), 0.1, 0.01);
  EXPECT_NEAR(seconds_of(*recent.total.median), 2, 0.2);
  EXPECT_EQ(stats.responses_total(), 3u);
  EXPECT_EQ(stats.served_total(), 1u);
}

TEST(BackendStats, CountErrorsByFault) {
  BackendStats stats;

  stats.count_error(Fault::connect_failed);
  stats.count_error(Fault::connect_failed);
  stats.count_error(Fault::backend_closed);
  stats.count_failed_response();

  EXPECT_EQ(stats.errors_total(Fault::connect_failed), 2u);
  EXPECT_EQ(stats.errors_total(Fault::idle_timeout), 0u);
  EXPECT_EQ(stats.failed_responses_total(), 1u);
  EXPECT_EQ(stats.errors_total(), 4u);
}

TEST(Lease, IsReleasedWhenDropped) {
  auto backend = std::make_shared<Backend>(some_spec(0));
  ASSERT_TRUE(backend->try_acquire(noon));

  {
    Lease lease = Lease::adopt(backend);
    Lease moved = std::move(lease);
    EXPECT_FALSE(lease);
    EXPECT_EQ(moved.backend(), backend);
    EXPECT_EQ(backend->slots().in_flight(), 1u);
  }

  EXPECT_EQ(backend->slots().in_flight(), 0u);
  EXPECT_EQ(backend->slots().picks_total(), 1u);
}

TEST(Lease, IsReleasedOnMoveAssignment) {
  auto one = std::make_shared<Backend>(some_spec(0));
  auto other = std::make_shared<Backend>(some_spec(1));
  ASSERT_TRUE(one->try_acquire(noon) && other->try_acquire(noon));
  Lease lease = Lease::adopt(one);

  lease = Lease::adopt(other);

  EXPECT_EQ(one->slots().in_flight(), 0u);
  EXPECT_EQ(other->slots().in_flight(), 1u);
}

}  // namespace
}  // namespace evenkeel::testing
