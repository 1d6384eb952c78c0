// What the scheduler predicts where there is nothing to predict from.
#include <gtest/gtest.h>

#include <chrono>

#include "evenkeel/balance/scheduler.h"

namespace evenkeel {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr Instant noon{hours(12)};

SchedulerOptions shedding() {
  return {.slots = 2, .index_bytes = 1 << 20, .ttft_target = seconds(2), .shed_factor = 1};
}

TEST(SchedulerBounds, RequestsBeforeTheFirstBackendAreRefusedWhenTheyAreLate) {
  Scheduler scheduler(shedding());
  scheduler.arrive({.prompt_tokens = 100, .tokens_per_block = 512, .cookie = 1}, noon);
  EXPECT_TRUE(scheduler.place(noon).empty());

  const auto& placements = scheduler.place(noon + seconds(3));

  ASSERT_EQ(placements.size(), 1u);
  EXPECT_EQ(placements[0].backend, Scheduler::no_backend);
  EXPECT_GE(placements[0].retry_after, Duration{});
  EXPECT_LE(placements[0].retry_after, hours(24));
}

TEST(SchedulerBounds, RequestsBeforeTheFirstBackendAreServedByIt) {
  Scheduler scheduler(shedding());
  scheduler.arrive({.prompt_tokens = 100, .tokens_per_block = 512, .cookie = 1}, noon);
  scheduler.add_backend(0, {.identity = 1, .kv_tokens = 1'000'000});

  const auto& placements = scheduler.place(noon + seconds(1));

  ASSERT_EQ(placements.size(), 1u);
  EXPECT_EQ(placements[0].backend, 0u);
  EXPECT_LT(placements[0].predicted_ttft, seconds(2));
}

TEST(SchedulerBounds, TheIndexHoldsNoMoreBlocksThanItHasRoomFor) {
  Scheduler scheduler(shedding());
  scheduler.add_backend(0, {.identity = 1, .kv_tokens = 1'000'000'000});
  const std::size_t bytes = scheduler.index_bytes();

  scheduler.arrive({.prompt_tokens = 100, .tokens_per_block = 1e-3, .cookie = 1}, noon);
  EXPECT_EQ(scheduler.place(noon).size(), 1u);

  EXPECT_EQ(scheduler.index_bytes(), bytes);
}

}  // namespace
}  // namespace evenkeel
