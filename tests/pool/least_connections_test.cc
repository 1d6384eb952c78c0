#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "evenkeel/base/rng.h"
#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

// Keeps `held` requests in flight; with each new one a random other ends.
void keep_in_flight(Picker& picker, std::size_t held, int requests) {
  Rng rng(5);
  std::vector<Lease> leases;
  for (int i = 0; i < requests; ++i) {
    const BackendPtr* chosen = picker.pick({.now = noon});
    ASSERT_TRUE(chosen != nullptr && (*chosen)->try_acquire(noon));
    Lease lease = Lease::adopt(*chosen);
    if (leases.size() < held) {
      leases.push_back(std::move(lease));
    } else {
      leases[rng.below(static_cast<std::uint32_t>(held))] = std::move(lease);
    }
  }
}

TEST(LeastConnections, PicksTheLeastLoadedBackendOfASmallPool) {
  auto backends = some_backends(20);
  for (std::size_t i = 0; i < 20; ++i) {
    for (std::size_t n = 0; n < (i == 13 ? 2 : 3 + i % 4); ++n) (*backends)[i]->try_acquire(noon);
  }
  auto picker = make_picker({.backends = backends, .choice = {.name = "least-connections"}}, 3);

  const auto counts = count_picks(*picker, *backends, 100);

  EXPECT_EQ(counts[13], 100);
}

TEST(LeastConnections, CountsLoadPerWeight) {
  auto backends = weighted_backends({1, 4});
  for (int i = 0; i < 2; ++i) (*backends)[1]->try_acquire(noon);
  auto picker = make_picker({.backends = backends, .choice = {.name = "least-connections"}}, 3);

  // (0 + 1) / 1 against (2 + 1) / 4.
  EXPECT_EQ(index_of(*backends, picker->pick({.now = noon})), 1u);
  (*backends)[1]->try_acquire(noon);
  (*backends)[1]->try_acquire(noon);
  EXPECT_EQ(index_of(*backends, picker->pick({.now = noon})), 0u);
}

TEST(LeastConnections, BreaksTiesAtRandom) {
  auto backends = some_backends(8);
  auto picker = make_picker({.backends = backends, .choice = {.name = "least-connections"}}, 3);

  const auto counts = count_picks(*picker, *backends, 80'000);

  EXPECT_LT(chi_square(counts, *backends), 24.3);  // 7 degrees of freedom: 1 in 1000
}

TEST(LeastConnections, BreaksTiesAtRandomInABigPool) {
  auto backends = some_backends(100);
  auto picker = make_picker({.backends = backends, .choice = {.name = "least-connections"}}, 3);

  const auto counts = count_picks(*picker, *backends, 200'000);

  EXPECT_LT(chi_square(counts, *backends), 149);  // 99 degrees of freedom: 1 in 1000
}

TEST(LeastConnections, KeepsABigPoolEven) {
  auto backends = some_backends(1000);
  auto picker = make_picker({.backends = backends, .choice = {.name = "least-connections"}}, 3);
  std::vector<Lease> leases;

  // Balls into bins: 10 each in the mean. One random choice would leave 22 on the fullest.
  for (int i = 0; i < 10'000; ++i) {
    const BackendPtr* chosen = picker->pick({.now = noon});
    ASSERT_TRUE((*chosen)->try_acquire(noon));
    leases.push_back(Lease::adopt(*chosen));
  }

  std::uint32_t most = 0;
  for (const auto& backend : *backends) most = std::max(most, backend->slots().in_flight());
  EXPECT_LE(most, 13u);
}

TEST(LeastConnections, GivesABigPoolWorkInProportionToItsWeights) {
  std::vector<std::uint32_t> weights;
  for (std::uint32_t i = 0; i < 100; ++i) weights.push_back(i < 50 ? 1 : 9);
  auto backends = weighted_backends(weights);
  auto picker = make_picker({.backends = backends, .choice = {.name = "least-connections"}}, 3);

  keep_in_flight(*picker, 5000, 200'000);

  double light = 0;
  double heavy = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    (i < 50 ? light : heavy) += static_cast<double>((*backends)[i]->slots().picks_total());
  }
  // At rest in the middle: light + 1 = (heavy + 1) / 9 and 50 light + 50 heavy = 5000.
  EXPECT_NEAR(heavy / light, 90.8 / 9.2, 0.01 * 9);
}

TEST(LeastConnections, LeavesNothingBehindAtRest) {
  auto backends = some_backends(50);
  auto picker = make_picker({.backends = backends, .choice = {.name = "least-connections"}}, 3);

  keep_in_flight(*picker, 300, 5000);

  std::uint64_t picks = 0;
  for (const auto& backend : *backends) {
    EXPECT_EQ(backend->slots().in_flight(), 0u);
    picks += backend->slots().picks_total();
  }
  EXPECT_EQ(picks, 5000u);
}

}  // namespace
}  // namespace evenkeel::testing
