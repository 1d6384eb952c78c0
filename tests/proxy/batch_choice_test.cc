#include "proxy/batch_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace evenkeel {
namespace {

using testing::Contains;
using testing::ElementsAre;

constexpr BatchingConfig config{.max_size = 4, .max_tokens = 100};

std::vector<std::size_t> choose(const std::vector<BatchSize>& waiting, std::size_t first = 0) {
  return choose_batch(waiting, first, config);
}

TEST(ChoiceOfABatch, TakesAllThatFit) {
  EXPECT_THAT(choose({{1, 10}, {2, 3}, {1, 25}}), ElementsAre(0, 1, 2));
}

TEST(ChoiceOfABatch, TakesThoseWhoseLengthIsCloseToTheFirst) {
  EXPECT_THAT(choose({{1, 10}, {1, 50}, {1, 12}, {1, 40}, {1, 9}}), ElementsAre(0, 2, 4));
  EXPECT_THAT(choose({{1, 50}, {1, 10}, {1, 45}}), ElementsAre(0, 2));
  EXPECT_THAT(choose({{1, 50}, {1, 10}, {1, 45}, {1, 11}}, 3), ElementsAre(1, 3));
}

TEST(ChoiceOfABatch, CountsWhatPaddingCosts) {
  EXPECT_THAT(choose({{1, 1}, {1, 51}}), ElementsAre(0)) << "two of 51 tokens are more than 100";
  EXPECT_THAT(choose({{1, 1}, {1, 50}}), ElementsAre(0, 1));
}

TEST(ChoiceOfABatch, CountsRowsAloneOfInputsWithoutTokens) {
  EXPECT_THAT(choose({{2, 0}, {3, 0}, {1, 0}, {1, 0}}), ElementsAre(0, 2, 3));
}

TEST(ChoiceOfABatch, AlwaysFitsAndHasTheOneThatItIsFor) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::vector<BatchSize> waiting(1 + random() % 12);
    for (BatchSize& each : waiting) {
      each.rows = 1 + random() % config.max_size;
      each.max_input_tokens = random() % (config.max_tokens / each.rows + 1);
    }
    const std::size_t first = random() % waiting.size();
    const auto chosen = choose(waiting, first);
    EXPECT_THAT(chosen, Contains(first));
    BatchSize size;
    for (const std::size_t each : chosen) size = size + waiting[each];
    EXPECT_TRUE(size.fits(config));
  }
}

TEST(SizeOfABatch, IsFullWhenNoneOfItsLengthFitsBesideIt) {
  EXPECT_TRUE((BatchSize{4, 1}).is_full(config));
  EXPECT_TRUE((BatchSize{2, 34}).is_full(config));
  EXPECT_TRUE((BatchSize{1, 51}).is_full(config));
  EXPECT_FALSE((BatchSize{2, 33}).is_full(config));
  EXPECT_FALSE((BatchSize{3, 0}).is_full(config));
}

}  // namespace
}  // namespace evenkeel
