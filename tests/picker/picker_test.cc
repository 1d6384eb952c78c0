// The rules that every picker follows.
#include "evenkeel/picker/picker.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <ostream>
#include <set>
#include <string>

#include "evenkeel/base/rng.h"
#include "evenkeel/config/config.h"
#include "picker/picks.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

struct Case {
  std::string picker;
  std::size_t backends;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.picker << " of " << one.backends; }

class EveryPicker : public ::testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Picker> picker_over(std::shared_ptr<Backends> backends) {
    return make_picker({.backends = std::move(backends), .choice = {.name = GetParam().picker}}, 1);
  }
  std::size_t size() const { return GetParam().backends; }
};
// Pools of the sizes that a rule applies to.
class EveryPickerOfSeveral : public EveryPicker {};
class EveryPickerOfAFew : public EveryPicker {};
class EveryPickerOfMany : public EveryPicker {};

std::vector<Case> cases(std::initializer_list<std::size_t> sizes) {
  std::vector<Case> all;
  for (const std::string& name : picker_names()) {
    for (const std::size_t backends : sizes) all.push_back({name, backends});
  }
  return all;
}

std::string name_of(const ::testing::TestParamInfo<Case>& instance) {
  std::string name = instance.param.picker + "_" + std::to_string(instance.param.backends);
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(, EveryPicker, ::testing::ValuesIn(cases({1, 3, 40, 500})), name_of);
INSTANTIATE_TEST_SUITE_P(, EveryPickerOfSeveral, ::testing::ValuesIn(cases({3, 40, 500})), name_of);
INSTANTIATE_TEST_SUITE_P(, EveryPickerOfAFew, ::testing::ValuesIn(cases({2, 3})), name_of);
INSTANTIATE_TEST_SUITE_P(, EveryPickerOfMany, ::testing::ValuesIn(cases({40, 500})), name_of);

TEST_P(EveryPicker, PicksEachBackendEventually) {
  auto backends = some_backends(size());
  auto picker = picker_over(backends);

  const auto counts = count_picks(*picker, *backends, static_cast<int>(size()) * 20);

  EXPECT_EQ(counts[size()], 0) << "picked no backend";
  for (std::size_t i = 0; i < size(); ++i) EXPECT_GT(counts[i], 0) << "backend " << i;
}

TEST_P(EveryPicker, NeverPicksAnExcludedBackend) {
  auto backends = some_backends(size());
  auto picker = picker_over(backends);
  Hint hint{.now = noon};

  std::set<const Backend*> picked;
  const std::size_t tries = std::min(size(), ExcludedBackends::capacity);
  for (std::size_t i = 0; i < tries; ++i) {
    hint.key = i;
    const BackendPtr* chosen = picker->pick(hint);
    ASSERT_NE(chosen, nullptr);
    EXPECT_TRUE(picked.insert(chosen->get()).second);
    hint.excluded.add(chosen->get());
  }

  if (tries == size()) {
    EXPECT_EQ(picker->pick(hint), nullptr);
  }
}

TEST_P(EveryPicker, NeverPicksAFullBackend) {
  auto backends = some_backends(size(), 2);
  auto picker = picker_over(backends);
  Rng keys(7);

  for (std::size_t i = 0; i < 2 * size(); ++i) {
    const BackendPtr* chosen = picker->pick({.key = keys(), .now = noon});
    ASSERT_NE(chosen, nullptr) << "with " << i << " places taken";
    ASSERT_TRUE((*chosen)->try_acquire(noon));
  }

  EXPECT_EQ(picker->pick({.now = noon}), nullptr);
}

TEST_P(EveryPicker, SkipsABackendInBackOffWhileAnotherIsAvailable) {
  auto backends = some_backends(size());
  for (std::size_t i = 0; i + 1 < size(); ++i) (*backends)[i]->state().connect_failed(noon);
  auto picker = picker_over(backends);

  const auto counts = count_picks(*picker, *backends, 50);

  EXPECT_EQ(counts[size() - 1], 50);
}

TEST_P(EveryPickerOfSeveral, PicksNoneWhileTheAvailableBackendIsFull) {
  auto backends = some_backends(size(), 1);
  for (std::size_t i = 1; i < size(); ++i) (*backends)[i]->state().connect_failed(noon);
  auto picker = picker_over(backends);

  ASSERT_TRUE((*backends)[0]->try_acquire(noon));

  EXPECT_EQ(picker->pick({.now = noon}), nullptr);
  EXPECT_NE(picker->pick({.now = noon + 1s}), nullptr);
}

TEST_P(EveryPicker, PicksABackendInBackOffWhenAllAre) {
  auto backends = some_backends(size());
  for (const auto& backend : *backends) backend->state().connect_failed(noon);
  auto picker = picker_over(backends);

  const auto counts = count_picks(*picker, *backends, static_cast<int>(size()) * 20);

  EXPECT_EQ(counts[size()], 0) << "picked no backend";
  EXPECT_GT(counts[0], 0);
}

TEST_P(EveryPickerOfAFew, PicksABackendInBackOffWhenAllOthersAreExcluded) {
  auto backends = some_backends(size());
  (*backends)[0]->state().connect_failed(noon);
  auto picker = picker_over(backends);
  Hint hint{.now = noon};
  for (std::size_t i = 1; i < size(); ++i) hint.excluded.add((*backends)[i].get());

  const BackendPtr* chosen = picker->pick(hint);

  EXPECT_EQ(index_of(*backends, chosen), 0u);
}

TEST_P(EveryPicker, FindsTheOnlyAvailableBackend) {
  auto backends = some_backends(size(), 1);
  for (std::size_t i = 0; i < size(); ++i) {
    if (i == size() / 2) continue;
    ASSERT_TRUE((*backends)[i]->try_acquire(noon));
  }
  auto picker = picker_over(backends);

  for (std::uint64_t key = 0; key < 20; ++key) {
    const BackendPtr* chosen = picker->pick({.key = key, .now = noon});
    EXPECT_EQ(index_of(*backends, chosen), size() / 2);
  }
}

TEST_P(EveryPickerOfMany, OfTwoWorkersDoesNotPickInLockstep) {
  auto backends = some_backends(size());
  const PickerFactory make =
      picker_factory({.backends = backends, .choice = {.name = GetParam().picker}});
  auto one = make(1);
  auto other = make(2);

  int together = 0;
  for (int i = 0; i < 100; ++i) {
    if (one->pick({.now = noon}) == other->pick({.now = noon})) ++together;
  }

  EXPECT_LT(together, 20);
}

TEST_P(EveryPicker, IsTheSameForTheSameSeed) {
  auto backends = some_backends(size());
  const PickerFactory make =
      picker_factory({.backends = backends, .choice = {.name = GetParam().picker}});
  auto one = make(5);
  auto other = make(5);

  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(one->pick({.now = noon}), other->pick({.now = noon}));
  }
}

TEST(Pickers, OfAnEmptyPoolPickNone) {
  for (const std::string& name : picker_names()) {
    auto picker = make_picker({.backends = some_backends(0), .choice = {.name = name}}, 1);
    EXPECT_EQ(picker->pick({.now = noon}), nullptr) << name;
  }
}

TEST(Pickers, OfAnUnknownNameAreNotMade) {
  EXPECT_EQ(make_picker({.backends = some_backends(1), .choice = {.name = "fastest"}}, 1), nullptr);
}

}  // namespace
}  // namespace evenkeel::testing
