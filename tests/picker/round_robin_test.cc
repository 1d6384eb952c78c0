#include <gtest/gtest.h>

#include "picker/picks.h"

namespace evenkeel::testing {
namespace {

TEST(RoundRobin, GivesEachTheSameNumberPerRound) {
  auto backends = some_backends(7);
  auto picker = make_picker({.backends = backends, .choice = {.name = "round-robin"}}, 3);

  const auto counts = count_picks(*picker, *backends, 7 * 10);

  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(counts[i], 10);
}

TEST(RoundRobin, GoesInOrderFromARandomStart) {
  auto backends = some_backends(1000);
  std::vector<std::size_t> starts;

  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    auto picker = make_picker({.backends = backends, .choice = {.name = "round-robin"}}, seed);
    const std::size_t first = index_of(*backends, picker->pick({.now = noon}));
    const std::size_t second = index_of(*backends, picker->pick({.now = noon}));
    EXPECT_EQ(second, (first + 1) % 1000);
    starts.push_back(first);
  }

  EXPECT_FALSE(starts[0] == starts[1] && starts[1] == starts[2]);
}

TEST(RoundRobin, DoesNotOverloadTheNeighbourOfASkippedBackend) {
  auto backends = some_backends(5);
  (*backends)[2]->state().connect_failed(noon);
  auto picker = make_picker({.backends = backends, .choice = {.name = "round-robin"}}, 3);

  const auto counts = count_picks(*picker, *backends, 400);

  EXPECT_EQ(counts, (std::vector<int>{100, 100, 0, 100, 100, 0}));
}

}  // namespace
}  // namespace evenkeel::testing
