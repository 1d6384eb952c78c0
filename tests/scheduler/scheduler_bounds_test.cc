// What the scheduler predicts where there is nothing to predict from.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/scheduler/prefix_index.h"
#include "evenkeel/scheduler/scheduler.h"

namespace evenkeel {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr Instant noon{hours(12)};

SchedulerOptions shedding() {
  return {.slots = 2, .config = {.slo = {.ttft = seconds(2)}, .shed = 1, .index_bytes = 1 << 20}};
}

TEST(SchedulerBounds, RequestsBeforeTheFirstBackendAreRefusedWhenTheyAreLate) {
  Scheduler scheduler(shedding());
  scheduler.arrive({.prompt_tokens = 100, .tokens_per_block = 512}, noon);
  EXPECT_TRUE(scheduler.place(noon).empty());

  const auto& placements = scheduler.place(noon + seconds(3));

  ASSERT_EQ(placements.size(), 1u);
  EXPECT_EQ(placements[0].backend, Scheduler::no_backend);
  EXPECT_GE(placements[0].retry_after, Duration{});
  EXPECT_LE(placements[0].retry_after, hours(24));
}

TEST(SchedulerBounds, RequestsBeforeTheFirstBackendAreServedByIt) {
  Scheduler scheduler(shedding());
  scheduler.arrive({.prompt_tokens = 100, .tokens_per_block = 512}, noon);
  scheduler.add_backend(0, {.identity = 1, .kv_tokens = 1'000'000});

  const auto& placements = scheduler.place(noon + seconds(1));

  ASSERT_EQ(placements.size(), 1u);
  EXPECT_EQ(placements[0].backend, 0u);
  EXPECT_LT(placements[0].predicted_ttft, seconds(2));
}

TEST(SchedulerBounds, TheIndexHoldsNoMoreBlocksThanItHasRoomFor) {
  Scheduler scheduler(shedding());
  scheduler.add_backend(0, {.identity = 1, .kv_tokens = 1'000'000'000});
  const std::size_t bytes = scheduler.prefixes().bytes();

  scheduler.arrive({.prompt_tokens = 100, .tokens_per_block = 1e-3}, noon);
  EXPECT_EQ(scheduler.place(noon).size(), 1u);

  EXPECT_EQ(scheduler.prefixes().bytes(), bytes);
}

TEST(SchedulerBounds, TheIndexIsSizedByUsualPromptsNotByTheFirst) {
  Scheduler scheduler({.slots = 1, .config = {.index_bytes = 1 << 20}});
  scheduler.add_backend(0, {.identity = 1, .kv_tokens = 100'000});
  Instant now = noon;
  const auto serve = [&](std::uint64_t prompt, double tokens_per_block) {
    std::vector<std::uint64_t> blocks;
    for (std::uint64_t i = 1; i <= 10; ++i) blocks.push_back(mix(prompt * 100 + i));
    const auto before = scheduler.forecast(0, Instant{}).predicted_cached;
    const auto ticket = scheduler.arrive(
        {.prompt_tokens = 2570, .prefix_blocks = blocks, .tokens_per_block = tokens_per_block},
        now);
    EXPECT_EQ(scheduler.place(now).size(), 1u);
    now += seconds(1);
    scheduler.first_token(ticket, now);
    scheduler.finished(ticket, {.output_tokens = 5, .cached_tokens = 0, .prompt_tokens = 2570},
                       now);
    now += seconds(1);
    return scheduler.forecast(0, Instant{}).predicted_cached - before;
  };
  serve(0, 25'000);  // as of a short text with many images
  for (std::uint64_t i = 1; i <= 300; ++i) serve(i, 256);

  EXPECT_EQ(serve(280, 256), 2560u) << "the last 30 prompts fit";
  EXPECT_EQ(serve(200, 256), 0u);
}

}  // namespace
}  // namespace evenkeel
