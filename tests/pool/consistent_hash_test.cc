#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "evenkeel/base/rng.h"
#include "picker/rendezvous_table.h"
#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

std::shared_ptr<Backends> without(const Backends& backends, std::size_t index) {
  auto rest = std::make_shared<Backends>(backends);
  rest->erase(rest->begin() + static_cast<std::ptrdiff_t>(index));
  return rest;
}

std::string pick_id(Picker& picker, std::uint64_t key) {
  return (*picker.pick({.key = key, .now = noon}))->id();
}

TEST(ConsistentHash, SendsAKeyToTheSameBackend) {
  auto backends = some_backends(50);
  const PickerFactory make =
      picker_factory({.backends = backends, .choice = {.name = "consistent-hash"}});
  auto one = make(1);
  auto other = make(2);

  for (std::uint64_t key = 0; key < 1000; ++key) {
    const std::string home = pick_id(*one, key);
    EXPECT_EQ(pick_id(*one, key), home);
    EXPECT_EQ(pick_id(*other, key), home) << "the workers must agree";
  }
}

TEST(ConsistentHash, DoesNotDependOnTheOrderOfTheBackends) {
  auto backends = some_backends(20);
  auto reversed = std::make_shared<Backends>(backends->rbegin(), backends->rend());
  auto one = make_picker({.backends = backends, .choice = {.name = "consistent-hash"}}, 1);
  auto other = make_picker({.backends = reversed, .choice = {.name = "consistent-hash"}}, 1);

  for (std::uint64_t key = 0; key < 1000; ++key)
    EXPECT_EQ(pick_id(*one, key), pick_id(*other, key));
}

TEST(ConsistentHash, MovesOnlyTheKeysOfARemovedBackend) {
  for (std::size_t count : {4u, 100u, 500u}) {
    auto backends = some_backends(count);
    auto rest = without(*backends, count / 2);
    const std::string gone = (*backends)[count / 2]->id();
    auto before = make_picker({.backends = backends, .choice = {.name = "consistent-hash"}}, 1);
    auto after = make_picker({.backends = rest, .choice = {.name = "consistent-hash"}}, 1);

    int moved = 0;
    const int keys = 100'000;
    for (std::uint64_t key = 0; key < keys; ++key) {
      const std::string home = pick_id(*before, key);
      const std::string then = pick_id(*after, key);
      if (home == then) continue;
      ++moved;
      ASSERT_EQ(home, gone) << "a key of one that stayed";
    }

    EXPECT_LE(moved, 1.3 * keys / static_cast<double>(count)) << count << " backends";
    EXPECT_GE(moved, 0.7 * keys / static_cast<double>(count)) << count << " backends";
  }
}

TEST(ConsistentHash, MovesKeysOnlyToABackendWhoseWeightGrows) {
  auto before = weighted_backends({1, 1, 1, 1, 1});
  auto after = weighted_backends({1, 1, 3, 1, 1});
  auto one = make_picker({.backends = before, .choice = {.name = "consistent-hash"}}, 1);
  auto other = make_picker({.backends = after, .choice = {.name = "consistent-hash"}}, 1);

  int moved = 0;
  for (std::uint64_t key = 0; key < 20'000; ++key) {
    const std::string then = pick_id(*other, key);
    if (pick_id(*one, key) == then) continue;
    ++moved;
    ASSERT_EQ(then, (*after)[2]->id());
  }

  EXPECT_NEAR(moved, 20'000 * (3.0 / 7 - 1.0 / 5), 400);
}

TEST(ConsistentHash, GivesKeysInProportionToTheWeights) {
  auto backends = weighted_backends({1, 2, 5, 8});
  auto picker = make_picker({.backends = backends, .choice = {.name = "consistent-hash"}}, 1);
  Rng keys(3);

  std::vector<int> counts(5);
  const int picks = 400'000;
  for (int i = 0; i < picks; ++i) {
    ++counts[index_of(*backends, picker->pick({.key = keys(), .now = noon}))];
  }

  for (std::size_t i = 0; i < 4; ++i) {
    const double share = (*backends)[i]->spec().config.weight / 16.0;
    EXPECT_NEAR(counts[i] / static_cast<double>(picks), share, 0.01) << "backend " << i;
  }
}

TEST(ConsistentHash, SpreadsRequestsWithoutAKey) {
  auto backends = some_backends(10);
  auto picker = make_picker({.backends = backends, .choice = {.name = "consistent-hash"}}, 1);

  const auto counts = count_picks(*picker, *backends, 100'000);

  for (std::size_t i = 0; i < 10; ++i) EXPECT_NEAR(counts[i], 10'000, 500);
}

TEST(ConsistentHash, KeepsAHotKeyWithinItsBound) {
  auto backends = some_backends(10);
  auto picker = make_picker(
      {.backends = backends, .choice = {.name = "consistent-hash", .load_factor = 1.25}}, 1);

  for (std::uint32_t held = 0; held < 1000; ++held) {
    const BackendPtr* chosen = picker->pick({.key = 42, .now = noon});
    ASSERT_TRUE((*chosen)->try_acquire(noon));
    EXPECT_LE((*chosen)->slots().in_flight(), std::ceil(1.25 * (held + 1) / 10));
  }
}

TEST(ConsistentHash, BoundsByWeight) {
  auto backends = weighted_backends({1, 1, 8});
  auto picker = make_picker(
      {.backends = backends, .choice = {.name = "consistent-hash", .load_factor = 1.25}}, 1);

  for (std::uint32_t held = 0; held < 1000; ++held) {
    const BackendPtr* chosen = picker->pick({.key = 42, .now = noon});
    ASSERT_TRUE((*chosen)->try_acquire(noon));
    const double fair = static_cast<double>(held + 1) * (*chosen)->spec().config.weight / 10.0;
    EXPECT_LE((*chosen)->slots().in_flight(), std::ceil(1.25 * fair));
  }
}

TEST(ConsistentHash, KeepsABigPoolWithinItsBoundUnderSkewedKeys) {
  auto backends = some_backends(400);
  auto picker = make_picker(
      {.backends = backends, .choice = {.name = "consistent-hash", .load_factor = 1.25}}, 1);
  Rng rng(3);
  constexpr std::uint32_t held = 8'000;
  std::vector<Lease> leases(held);

  std::uint32_t most = 0;
  for (std::uint32_t i = 0; i < 5 * held; ++i) {
    Lease& ended = leases[i < held ? i : rng.below(held)];
    ended.release();
    const double skewed = std::pow(rng.unit(), 3) * 5000;
    const BackendPtr* chosen =
        picker->pick({.key = static_cast<std::uint64_t>(skewed), .now = noon});
    ASSERT_TRUE((*chosen)->try_acquire(noon));
    ended = Lease::adopt(*chosen);
    if (i >= held) most = std::max(most, (*chosen)->slots().in_flight());
  }

  EXPECT_LE(most, 26u);  // 1.25 * 20, and one because the counts are slightly old
}

TEST(ConsistentHash, ReturnsAKeyToItsOwnerAfterAFailure) {
  auto backends = some_backends(10);
  auto picker = make_picker({.backends = backends, .choice = {.name = "consistent-hash"}}, 1);
  std::map<std::uint64_t, std::string> homes;
  for (std::uint64_t key = 0; key < 500; ++key) homes[key] = pick_id(*picker, key);

  (*backends)[4]->state().connect_failed(noon);
  for (std::uint64_t key = 0; key < 500; ++key) {
    const std::string stand_in = pick_id(*picker, key);
    EXPECT_NE(stand_in, (*backends)[4]->id());
    if (homes[key] != (*backends)[4]->id()) {
      EXPECT_EQ(stand_in, homes[key]);
    }
    EXPECT_EQ(pick_id(*picker, key), stand_in) << "the stand-in must be as constant as the home";
  }
  (*backends)[4]->connected();

  for (std::uint64_t key = 0; key < 500; ++key) EXPECT_EQ(pick_id(*picker, key), homes[key]);
}

TEST(ConsistentHash, SpreadsTheKeysOfAFailedBackend) {
  auto backends = some_backends(10);
  auto picker = make_picker({.backends = backends, .choice = {.name = "consistent-hash"}}, 1);
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 0; keys.size() < 900; ++key) {
    if (pick_id(*picker, key) == (*backends)[4]->id()) keys.push_back(key);
  }

  (*backends)[4]->state().connect_failed(noon);
  std::map<std::string, int> stand_ins;
  for (auto key : keys) ++stand_ins[pick_id(*picker, key)];

  EXPECT_EQ(stand_ins.size(), 9u);
  for (const auto& [id, count] : stand_ins) EXPECT_NEAR(count, 100, 45) << id;
}

TEST(RendezvousTable, OfABigPoolGivesEachBackendItsShare) {
  auto backends = some_backends(5000);
  const RendezvousTable table(*backends);

  std::vector<int> slots(5000);
  for (std::size_t slot = 0; slot < table.slots(); ++slot) {
    ++slots[table.owner(slot * (~std::uint64_t{0} / table.slots() + 1))];
  }

  const double mean = static_cast<double>(table.slots()) / 5000;
  const auto [least, most] = std::minmax_element(slots.begin(), slots.end());
  EXPECT_GT(*least, mean - 5 * std::sqrt(mean));
  EXPECT_LT(*most, mean + 5 * std::sqrt(mean));
}

TEST(RendezvousTable, IsMadeOnceForTheSameBackends) {
  const auto table = RendezvousTable::of(*some_backends(20));
  EXPECT_EQ(RendezvousTable::of(*some_backends(20)), table);
  EXPECT_NE(RendezvousTable::of(*some_backends(19)), table);
  auto backends = some_backends(20);
  std::swap(backends->front(), backends->back());
  EXPECT_NE(RendezvousTable::of(*backends), table) << "owners are places in the list";
  backends = some_backends(20);
  BackendSpec heavier = backends->front()->spec();
  heavier.config.weight += 1;
  backends->front() = std::make_shared<Backend>(heavier);
  EXPECT_NE(RendezvousTable::of(*backends), table);
}

}  // namespace
}  // namespace evenkeel::testing
