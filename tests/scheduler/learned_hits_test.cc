// What the scheduler makes of the cached tokens that engines report.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <vector>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/scheduler/scheduler.h"

namespace evenkeel {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint32_t conversations = 20;
constexpr std::uint32_t prompt_blocks = 22;
constexpr double block_tokens = 256;
constexpr std::uint32_t prompt_tokens = 5600;

/// One engine with room for all of the conversations, which are continued in random order.
class LearnedHits : public testing::Test {
 protected:
  LearnedHits() { scheduler_.add_backend(0, {.identity = 1, .kv_tokens = 1'000'000}); }

  /// Serves a prompt of a conversation. `true_ratio`: the engine's tokens by the estimated ones.
  /// `cached_share`: of the prompt, in the engine.
  /// Returns the tokens that were predicted to be.
  std::uint64_t serve(std::uint32_t conversation, double true_ratio, double cached_share) {
    const std::uint64_t before = scheduler_.forecast(0, Instant{}).predicted_cached;
    std::vector<std::uint64_t> blocks;
    for (std::uint64_t i = 0; i < prompt_blocks; ++i) blocks.push_back(mix(conversation * 100 + i));
    scheduler_.arrive(
        {.prompt_tokens = prompt_tokens, .prefix_blocks = blocks, .tokens_per_block = block_tokens},
        now_);
    const auto placed = scheduler_.place(now_);
    EXPECT_EQ(placed.size(), 1u);
    const Scheduler::Placement placement = placed[0];
    // Of an engine that computes 10 000 tokens a second.
    const double counted = prompt_tokens * true_ratio;
    const double cached = std::floor(cached_share * (counted - 1) / 16) * 16;
    now_ += std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(0.02 + (counted - cached) / 10'000));
    scheduler_.first_token(placement.ticket, now_);
    now_ += milliseconds(100);
    scheduler_.finished(placement.ticket,
                        {.output_tokens = 5,
                         .cached_tokens = static_cast<std::uint64_t>(cached),
                         .prompt_tokens = static_cast<std::uint64_t>(counted)},
                        now_);
    now_ += seconds(1);
    return scheduler_.forecast(0, Instant{}).predicted_cached - before;
  }
  std::uint32_t any_conversation() { return rng_.below(conversations); }
  /// About normal, around 1.
  double any_ratio(double deviation) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += rng_.unit();
    return 1 + deviation * sum;
  }
  /// Of all conversations, each once.
  double predicted_share() {
    std::uint64_t predicted = 0;
    for (std::uint32_t i = 0; i < conversations; ++i) predicted += serve(i, 1, 1);
    return static_cast<double>(predicted) / (conversations * prompt_tokens);
  }

  Rng rng_{1};
  Scheduler scheduler_{{.slots = 1, .config = {.index_bytes = 1 << 20}}};
  Instant now_{hours(12)};
};

TEST_F(LearnedHits, AreNotMissedBecauseAPromptHadFewerTokensThanEstimated) {
  for (int i = 0; i < 3000; ++i) serve(any_conversation(), any_ratio(0.08), 1);

  EXPECT_GT(predicted_share(), 0.9);
}

TEST_F(LearnedHits, AreNoLongerPredictedWhereTheyAreMissed) {
  for (int i = 0; i < 3000; ++i) serve(any_conversation(), any_ratio(0.08), 0);

  EXPECT_LT(predicted_share(), 0.1);
}

TEST_F(LearnedHits, ArePredictedAgainWhenTheEngineKeepsPromptsAgain) {
  for (int i = 0; i < 3000; ++i) serve(any_conversation(), 1, 0);

  for (int i = 0; i < 2000; ++i) serve(any_conversation(), any_ratio(0.08), 1);

  EXPECT_GT(predicted_share(), 0.9);
}

}  // namespace
}  // namespace evenkeel
