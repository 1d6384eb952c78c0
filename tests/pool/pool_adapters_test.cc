// Which requests a pool takes to ask for adapters, and what it believes its engines to hold.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/pool/pool.h"
#include "evenkeel/scheduler/request_cost.h"
#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t base = 100, sql = 101, chat = 102, code = 103;  // names of models

class PoolAdapters : public ::testing::Test {
 protected:
  PoolAdapters() {
    PoolSpec spec = some_pool(3, 0);
    spec.config.picker.name = "expected-time";
    spec.config.picker.index_bytes = 1 << 20;
    state_ = PoolState::build(std::move(spec));
    state_->activate();
    pool_.emplace(state_, loop_, 1);
  }
  EngineState& engine(std::size_t index) { return state_->backends()[index]->signals().engine(); }
  void offer(std::size_t index, const std::vector<std::uint64_t>& adapters) {
    OfferedAdapters offered;
    for (const std::uint64_t each : adapters) offered.push_back({.name = each, .adapter = each});
    engine(index).offers(offered);
  }
  void offer_everywhere(const std::vector<std::uint64_t>& adapters) {
    for (std::size_t i = 0; i < 3; ++i) offer(i, adapters);
  }
  /// The engine's page, as of now.
  void report(std::size_t index, const AdapterReport& adapters, double start_time = 1000) {
    engine(index).report({.start_time = start_time, .adapters = adapters});
    state_->backends()[index]->signals().publish({.running = 0, .waiting = 0}, Clock::now(), 0);
  }
  void tick() { state_->tick(Clock::now()); }

  struct Priced {
    std::size_t backend;
    std::vector<double> loads;  // by backend
  };
  /// Places a request, which ends at once.
  Priced place(std::uint64_t model) {
    ++placed_;
    const std::string name = "request-" + std::to_string(placed_);
    const RequestCost cost{
        .arrival = {.prompt_tokens = 500}, .model = model, .name = name, .wants_record = true};
    auto task = pool_->acquire({.cost = &cost});
    EXPECT_TRUE(task.ready());
    const auto lease = task.take();
    const auto& backends = state_->backends();
    const auto chosen = std::ranges::find(backends, lease->backend());
    Priced priced{static_cast<std::size_t>(chosen - backends.begin()), {-1, -1, -1}};
    const auto decisions = state_->scheduled()->decisions(name);
    EXPECT_EQ(decisions.size(), 1u);
    const Decision& decision = decisions[0].decision;
    for (std::size_t i = 0; i < decision.candidate_count; ++i) {
      priced.loads[decision.candidates[i].slot] = decision.candidates[i].load;
    }
    return priced;
  }
  using Loads = std::vector<double>;

  Loop loop_;
  std::shared_ptr<PoolState> state_;
  std::optional<Pool> pool_;
  int placed_ = 0;
};

TEST_F(PoolAdapters, OnlyWhatAnEngineOffersOrUsesIsAnAdapter) {
  EXPECT_EQ(place(sql).loads, Loads({0, 0, 0})) << "nothing is known yet";
  offer(0, {sql});
  report(1, {.in_use = {chat}, .slots = 1});
  tick();

  EXPECT_EQ(place(base).loads, Loads({0, 0, 0}));
  EXPECT_EQ(place(code).loads, Loads({0, 0, 0}));
  EXPECT_EQ(place(0).loads, Loads({0, 0, 0})) << "a request without a model's name";
  EXPECT_EQ(place(sql).loads, Loads({1, 1, 1}));
  EXPECT_EQ(place(chat).loads, Loads({1, 0, 1}));
}

TEST_F(PoolAdapters, AnAdapterIsHeldWhereARequestForItWent) {
  offer_everywhere({sql, chat, code});
  tick();
  const std::size_t first = place(sql).backend;

  for (int i = 0; i < 5; ++i) {
    const Priced again = place(sql);
    EXPECT_EQ(again.backend, first);
    EXPECT_EQ(again.loads[first], 0);
  }
}

TEST_F(PoolAdapters, ARequestGoesWhereTheEngineSaysThatItsAdapterIs) {
  offer_everywhere({sql, chat, code});
  report(0, {.in_use = {sql}, .slots = 1});
  report(1, {.in_use = {chat}, .slots = 1});
  report(2, {.used_before = {code}, .slots = 1});
  tick();

  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(place(sql).backend, 0u);
    EXPECT_EQ(place(chat).backend, 1u);
    EXPECT_EQ(place(code).backend, 2u);
  }
}

TEST_F(PoolAdapters, AdaptersSpreadOverEnginesThatHaveOneSlotEach) {
  offer_everywhere({sql, chat, code});
  for (std::size_t i = 0; i < 3; ++i) report(i, {.slots = 1});
  tick();
  std::vector<std::size_t> homes;
  for (const std::uint64_t each : {sql, chat, code}) homes.push_back(place(each).backend);

  EXPECT_EQ(std::set(homes.begin(), homes.end()).size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(place(sql).backend, homes[0]);
    EXPECT_EQ(place(chat).backend, homes[1]);
    EXPECT_EQ(place(code).backend, homes[2]);
  }
}

TEST_F(PoolAdapters, AnEngineWithASlotForEachHoldsAllThatItOffers) {
  offer_everywhere({sql, chat});
  report(1, {.slots = 2});
  tick();

  EXPECT_EQ(place(sql).loads, Loads({1, 0, 1}));
}

TEST_F(PoolAdapters, AnotherNameMayStandForAnAdapter) {
  constexpr std::uint64_t other_name = 200;
  engine(0).offers({{.name = sql, .adapter = sql}, {.name = other_name, .adapter = sql}});
  engine(0).report({.adapter_slots = 1});
  state_->backends()[0]->signals().publish({.running = 0, .waiting = 0}, Clock::now(), 0);
  tick();

  EXPECT_EQ(place(other_name).loads, Loads({0, 1, 1})) << "it counts once";
}

TEST_F(PoolAdapters, AnEngineThatRestartsHasLoadedNone) {
  offer_everywhere({sql, chat, code});
  report(0, {.in_use = {sql}, .slots = 1});
  tick();
  EXPECT_EQ(place(sql).loads, Loads({0, 1, 1}));

  report(0, {.slots = 1}, 2000);
  tick();

  EXPECT_EQ(place(sql).loads, Loads({1, 1, 1}));
}

TEST_F(PoolAdapters, WhatIsOfferedNoMoreIsNoAdapter) {
  offer_everywhere({sql});
  tick();
  EXPECT_EQ(place(sql).loads, Loads({1, 1, 1}));

  offer_everywhere({chat});
  tick();

  EXPECT_EQ(place(sql).loads, Loads({0, 0, 0}));
}

}  // namespace
}  // namespace evenkeel::testing
