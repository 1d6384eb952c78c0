// What the scheduler predicts of prefix caches, and what it learns when engines report what they
// had.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "evenkeel/scheduler/scheduler.h"

namespace evenkeel {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double block_tokens = 300;

/// Blocks `first`, `first + 1` and so on.
std::vector<std::uint64_t> blocks(std::uint64_t first, std::uint64_t count) {
  std::vector<std::uint64_t> made;
  for (std::uint64_t i = 0; i < count; ++i) made.push_back(1'000'000 + first + i);
  return made;
}

/// A scheduler with one backend, which serves one request at a time.
class Serving {
 public:
  explicit Serving(std::uint64_t kv_tokens) {
    scheduler_.add_backend(0, {.identity = 1, .kv_tokens = kv_tokens});
  }

  /// Serves a request whose engine reports these cached tokens. Returns how many were predicted.
  std::uint64_t serve(const std::vector<std::uint64_t>& prompt, std::uint32_t prompt_tokens,
                      std::uint64_t reported) {
    const std::uint64_t before = scheduler_.forecast(0, Instant{}).predicted_cached;
    const auto ticket = scheduler_.arrive(
        {.prompt_tokens = prompt_tokens, .prefix_blocks = prompt, .tokens_per_block = block_tokens},
        now_);
    EXPECT_EQ(scheduler_.place(now_).size(), 1u);
    now_ += milliseconds(100);
    scheduler_.first_token(ticket, now_);
    now_ += milliseconds(100);
    scheduler_.finished(ticket, {.output_tokens = 5, .cached_tokens = reported}, now_);
    return scheduler_.forecast(0, Instant{}).predicted_cached - before;
  }
  std::uint64_t reported() const { return scheduler_.forecast(0, Instant{}).reported_cached; }

 private:
  Scheduler scheduler_{{.slots = 4, .config = {.index_bytes = 1 << 20}}};
  Instant now_{seconds(1000)};
};

TEST(CachedTokens, AreThoseOfWholeBlocksUntilAnEngineReportsMore) {
  Serving serving(1'000'000);
  const auto prompt = blocks(0, 5);

  EXPECT_EQ(serving.serve(prompt, 3000, 0), 0u);
  EXPECT_EQ(serving.serve(prompt, 3000, 1650), 1500u);
  EXPECT_EQ(serving.reported(), 1650u);
}

TEST(CachedTokens, IncludeThePartOfABlockThatEnginesReportOnAverage) {
  Serving serving(1'000'000);
  const auto prompt = blocks(0, 5);
  serving.serve(prompt, 3000, 0);
  for (int i = 0; i < 50; ++i) serving.serve(prompt, 3000, i % 2 == 0 ? 1500 : 1680);

  EXPECT_NEAR(static_cast<double>(serving.serve(prompt, 3000, 1590)), 1590, 5);
}

TEST(CachedTokens, AreExactWhereTheEnginesBlocksAreThoseOfTheIndex) {
  Serving serving(1'000'000);
  const auto prompt = blocks(0, 5);
  serving.serve(prompt, 3000, 0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(serving.serve(prompt, 3000, 1500), 1500u);
}

TEST(CachedTokens, AreNeverTheWholePrompt) {
  Serving serving(1'000'000);
  const auto prompt = blocks(0, 5);
  serving.serve(prompt, 1600, 0);
  for (int i = 0; i < 50; ++i) serving.serve(prompt, 1600, 1599);

  EXPECT_EQ(serving.serve(prompt, 1600, 1599), 1599u);
  EXPECT_EQ(serving.serve(prompt, 1500, 1499), 1499u);
}

TEST(CachedTokens, OfAnotherPromptAreNone) {
  Serving serving(1'000'000);
  for (std::uint64_t i = 0; i < 20; ++i) {
    serving.serve(blocks(0, 5), 3000, i == 0 ? 0 : 1790);
    EXPECT_EQ(serving.serve(blocks(100 * (i + 1), 5), 3000, 10), 0u);
  }
}

TEST(CachedTokens, AMissIsNotTakenForTheEndOfAMatch) {
  Serving serving(1'000'000);
  const auto prompt = blocks(0, 5);
  serving.serve(prompt, 3000, 0);
  for (int i = 0; i < 50; ++i) serving.serve(prompt, 3000, 1650);
  for (int i = 0; i < 5; ++i) serving.serve(prompt, 3000, 0);

  EXPECT_NEAR(static_cast<double>(serving.serve(prompt, 3000, 1650)), 1650, 5);
}

TEST(CachedTokens, ShrinkWhereAnEngineOfUnknownSizeForgetsSooner) {
  Serving serving(0);
  constexpr std::uint64_t prompts = 20;
  std::uint64_t first_round = 0;
  std::uint64_t last_round = 0;
  // In turn, each is the least recently used one: an engine with room for half of them has none.
  for (int round = 0; round < 30; ++round) {
    last_round = 0;
    for (std::uint64_t i = 0; i < prompts; ++i) {
      last_round += serving.serve(blocks(100 * i, 10), 3100, 0);
    }
    if (round == 1) first_round = last_round;
  }

  EXPECT_GT(first_round, 0u);
  EXPECT_EQ(last_round, 0u);
}

}  // namespace
}  // namespace evenkeel
