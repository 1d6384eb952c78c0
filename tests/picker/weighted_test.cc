#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "picker/alias_table.h"
#include "picker/picks.h"

namespace evenkeel::testing {
namespace {

TEST(Weighted, GivesEachItsShareOfEveryRound) {
  const std::vector<std::uint32_t> weights{5, 1, 1, 13, 100};
  auto backends = weighted_backends(weights);
  auto picker = make_picker({.backends = backends, .choice = {.name = "weighted"}}, 3);

  for (int round = 1; round <= 50; ++round) {
    const auto counts = count_picks(*picker, *backends, 120);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      EXPECT_NEAR(counts[i], weights[i], 2) << "backend " << i << " in round " << round;
    }
  }
}

TEST(Weighted, SharesOfManyPicksAreWithinOnePercent) {
  std::vector<std::uint32_t> weights;
  for (std::uint32_t i = 0; i < 300; ++i) weights.push_back(1 + i % 10);
  auto backends = weighted_backends(weights);
  auto picker = make_picker({.backends = backends, .choice = {.name = "weighted"}}, 3);

  const int rounds = 200;
  const auto counts = count_picks(*picker, *backends, 1650 * rounds);

  for (std::size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(counts[i], weights[i] * rounds, 0.01 * weights[i] * rounds) << "backend " << i;
  }
}

TEST(Weighted, SpreadsTheTurnsOfTheHeaviest) {
  // 10 of 20: nearly every other pick.
  auto backends = weighted_backends({10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  auto picker = make_picker({.backends = backends, .choice = {.name = "weighted"}}, 9);

  int max_pause = 0;
  int pause = 0;
  for (int i = 0; i < 2000; ++i) {
    pause = index_of(*backends, picker->pick({.now = noon})) == 0 ? 0 : pause + 1;
    max_pause = std::max(max_pause, pause);
  }

  EXPECT_LE(max_pause, 2);
}

TEST(Weighted, DistributesTheShareOfABackendInBackOff) {
  auto backends = weighted_backends({6, 3, 1});
  (*backends)[0]->state().connect_failed(noon);
  auto picker = make_picker({.backends = backends, .choice = {.name = "weighted"}}, 3);

  const auto counts = count_picks(*picker, *backends, 4000);

  EXPECT_EQ(counts[0], 0);
  EXPECT_NEAR(counts[1], 3000, 30);
  EXPECT_NEAR(counts[2], 1000, 10);
}

TEST(Weighted, GivesNoCreditToARecoveredBackend) {
  auto backends = weighted_backends({1, 1, 1, 1});
  auto picker = make_picker({.backends = backends, .choice = {.name = "weighted"}}, 3);
  (*backends)[0]->state().connect_failed(noon);
  count_picks(*picker, *backends, 3000);

  (*backends)[0]->connected();
  const auto counts = count_picks(*picker, *backends, 40);

  EXPECT_NEAR(counts[0], 10, 2);
}

TEST(Weighted, KeepsSharesWhenNearlyAllAreFull) {
  std::vector<BackendSpec> specs;
  for (std::size_t i = 0; i < 1000; ++i) specs.push_back(some_spec(i, 1, i < 998 ? 1u : 0u));
  specs[999].config.weight = 3;
  auto backends = backends_of(specs);
  for (std::size_t i = 0; i < 998; ++i) ASSERT_TRUE((*backends)[i]->try_acquire(noon));
  auto picker = make_picker({.backends = backends, .choice = {.name = "weighted"}}, 3);

  const auto counts = count_picks(*picker, *backends, 4000);

  EXPECT_NEAR(counts[998], 1000, 120);  // by chance here: 4 standard deviations
  EXPECT_NEAR(counts[999], 3000, 120);
}

TEST(AliasTable, DrawsInProportionToTheWeights) {
  const std::vector<std::uint32_t> weights{1, 2, 3, 4, 90, 900};
  const AliasTable table(weights);
  Rng rng(11);

  std::vector<int> counts(weights.size());
  const int draws = 1'000'000;
  for (int i = 0; i < draws; ++i) ++counts[table.draw(rng)];

  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double expected = draws * (weights[i] / 1000.0);
    EXPECT_NEAR(counts[i], expected, 4 * std::sqrt(expected)) << "index " << i;
  }
}

}  // namespace
}  // namespace evenkeel::testing
