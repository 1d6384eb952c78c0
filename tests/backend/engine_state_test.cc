#include "evenkeel/backend/engine_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "evenkeel/backend/backend.h"
#include "evenkeel/backend/shared_backend.h"

namespace evenkeel {
namespace {

EngineReport started_at(double start_time, double work_done = EngineReport::unknown) {
  return {.start_time = start_time, .work_done = work_done};
}

EngineReport with_work(double work_done) { return {.work_done = work_done}; }

EngineReport with_prefixes(double queried, double hit, double start_time = 1000) {
  return {.start_time = start_time, .prefix_queried = queried, .prefix_hit = hit};
}

EngineReport with_adapters(std::vector<std::uint64_t> in_use, std::uint32_t slots,
                           double start_time = 1000) {
  return {.start_time = start_time,
          .adapters = AdapterReport{.in_use = std::move(in_use), .slots = slots}};
}

// ---- Restarts ---------------------------------------------------------------------------------

TEST(EngineState, CountsARestartByTheStartTimeOfTheProcess) {
  SharedBackend shared;
  EngineState& engine = shared.signals.engine();

  engine.report(started_at(1000));
  engine.report(started_at(1000));
  EXPECT_EQ(shared.signals.engine().restarts(), 0u);

  engine.report(started_at(1007));
  engine.report(started_at(1007));
  EXPECT_EQ(shared.signals.engine().restarts(), 1u);
}

TEST(EngineState, TakesAnAdjustedClockForNoRestart) {
  EngineState engine;
  for (const double start_time : {1000.0, 1001.0, 1000.0, 999.0}) {
    engine.report(started_at(start_time));
  }
  EXPECT_EQ(engine.restarts(), 0u);
}

TEST(EngineState, CountsAnotherServerAtTheSameAddressAsARestart) {
  EngineState engine;
  engine.report(started_at(1000));
  engine.report(started_at(500));
  EXPECT_EQ(engine.restarts(), 1u);
}

TEST(EngineState, CountsARestartByACounterThatGoesBack) {
  EngineState engine;
  engine.report(with_work(5));
  engine.report(with_work(70));
  engine.report(with_work(70));
  EXPECT_EQ(engine.restarts(), 0u);

  engine.report(with_work(3));
  EXPECT_EQ(engine.restarts(), 1u);
}

TEST(EngineState, TrustsTheStartTimeMoreThanCounters) {
  EngineState engine;
  engine.report(started_at(1000, 70));
  engine.report(started_at(1000, 3));
  EXPECT_EQ(engine.restarts(), 0u);

  engine.report(started_at(1100, 90));
  EXPECT_EQ(engine.restarts(), 1u);
}

TEST(EngineState, CountsTheReturnOfAServerWhosePageTellsNothing) {
  EngineState engine;
  engine.report({});
  engine.returned();
  EXPECT_EQ(engine.restarts(), 1u);

  engine.report({});
  EXPECT_EQ(engine.restarts(), 1u);
}

TEST(EngineState, CountsOneRestartOnceWhateverShowsIt) {
  EngineState by_counter;
  by_counter.report(with_work(70));
  by_counter.returned();
  by_counter.report(with_work(3));
  EXPECT_EQ(by_counter.restarts(), 1u);
  by_counter.report(with_work(1));
  EXPECT_EQ(by_counter.restarts(), 2u) << "the next one";

  EngineState by_start_time;
  by_start_time.report(started_at(1000));
  by_start_time.returned();
  EXPECT_EQ(by_start_time.restarts(), 0u) << "the page will tell";
  by_start_time.report(started_at(1100));
  EXPECT_EQ(by_start_time.restarts(), 1u);
}

TEST(EngineState, KnowsAQuickRestartByTheRefusedConnections) {
  EngineState engine;
  engine.report(started_at(1000));
  engine.returned();
  engine.report(started_at(1000.4));
  EXPECT_EQ(engine.restarts(), 1u);
}

TEST(EngineState, TakesARefusedConnectionForNoRestartIfTheProcessIsTheSame) {
  EngineState engine;
  engine.report(started_at(1000));
  engine.returned();
  engine.report(started_at(1000));
  EXPECT_EQ(engine.restarts(), 0u);
}

TEST(EngineState, ComparesNoCountersOfDifferentEngines) {
  EngineState engine;
  engine.report(with_work(70));
  engine.forget();
  engine.report(with_work(3));
  EXPECT_EQ(engine.restarts(), 0u);
}

TEST(EngineState, NoticesARestartWhileAnotherProcessHadIt) {
  for (const double start_time : {1000.0, 1007.0}) {
    EngineState engine;
    engine.resume({.start_time = 1000, .work_done = 70});
    EXPECT_TRUE(engine.is_unconfirmed());
    EXPECT_EQ(engine.run(), (EngineRun{.start_time = 1000, .work_done = 70}));

    engine.report(started_at(start_time, 50));

    EXPECT_FALSE(engine.is_unconfirmed());
    EXPECT_EQ(engine.cache_clears(), start_time == 1000.0 ? 0u : 1u);
    EXPECT_EQ(engine.run(), (EngineRun{.start_time = start_time, .work_done = 50}));
  }
}

TEST(EngineState, NoticesByACounterThatWentBackWhileAnotherProcessHadIt) {
  EngineState engine;
  engine.resume({.work_done = 70});
  engine.report(with_work(50));
  EXPECT_EQ(engine.cache_clears(), 1u);
}

TEST(EngineState, IsNotConfirmedByAReportWithoutAStartTime) {
  EngineState engine;
  engine.resume({.start_time = 1000});
  engine.report(with_work(50));
  EXPECT_TRUE(engine.is_unconfirmed());
  EXPECT_EQ(engine.cache_clears(), 0u);
}

// ---- Sleep ------------------------------------------------------------------------------------

TEST(EngineSleep, KeepsABackendOutOfRotationWhileAnySourceSaysSo) {
  const Backend backend(BackendSpec{.id = "b"});
  backend.note_sleep(SleepSource::page, true);
  backend.note_sleep(SleepSource::check, true);
  EXPECT_FALSE(backend.state().in_rotation());

  backend.note_sleep(SleepSource::page, false);
  EXPECT_TRUE(backend.state().is_out(OutOfRotation::sleeping)) << "half awake";
  backend.note_sleep(SleepSource::check, false);
  EXPECT_TRUE(backend.state().in_rotation());
}

TEST(EngineSleep, EmptiesTheCacheOnceWithoutARestart) {
  const Backend backend(BackendSpec{.id = "b"});
  const EngineState& engine = backend.signals().engine();
  for (const bool sleeps : {true, true, false, true}) {
    backend.note_sleep(SleepSource::check, sleeps);
  }
  EXPECT_EQ(engine.cache_clears(), 2u);
  EXPECT_EQ(engine.restarts(), 0u);

  backend.signals().engine().report(started_at(1000));
  backend.signals().engine().report(started_at(2000));
  EXPECT_EQ(engine.cache_clears(), 3u);
}

// ---- Sizes ------------------------------------------------------------------------------------

TEST(EngineState, KeepsSizesThatAPageLeavesOut) {
  SharedBackend shared;
  EXPECT_TRUE(std::isnan(shared.signals.kv_capacity_tokens()));
  EXPECT_TRUE(std::isnan(shared.signals.step_tokens()));

  shared.signals.engine().report({.kv_tokens = 404'352, .step_tokens = 8192});
  shared.signals.engine().report({});
  shared.signals.forget();

  EXPECT_EQ(shared.signals.kv_capacity_tokens(), 404'352);
  EXPECT_EQ(shared.signals.step_tokens(), 8192);
  shared.signals.engine().forget();
  EXPECT_TRUE(std::isnan(shared.signals.kv_capacity_tokens()));
  EXPECT_TRUE(std::isnan(shared.signals.step_tokens()));
}

// ---- Prefix cache -----------------------------------------------------------------------------

TEST(EngineState, CountsPrefixTokensFromTheFirstReportOn) {
  EngineState engine;
  EXPECT_FALSE(engine.prefix_cache().has_value());

  engine.report(with_prefixes(900, 400));
  ASSERT_TRUE(engine.prefix_cache().has_value());
  EXPECT_EQ(engine.prefix_cache()->queried, 0u);

  engine.report(with_prefixes(1000, 450));
  EXPECT_EQ(engine.prefix_cache()->queried, 100u);
  EXPECT_EQ(engine.prefix_cache()->hit, 50u);
}

TEST(EngineState, CountsAllPrefixTokensOfANewProcess) {
  EngineState engine;
  engine.report(with_prefixes(900, 400));
  engine.report(with_prefixes(1000, 450));

  engine.report(with_prefixes(1200, 10, 2000));

  EXPECT_EQ(engine.prefix_cache()->queried, 100u + 1200u);
  EXPECT_EQ(engine.prefix_cache()->hit, 50u + 10u);
}

TEST(EngineState, KeepsItsPrefixTokensWhileItIsNotPolled) {
  EngineState engine;
  engine.report(with_prefixes(0, 0));
  engine.report(with_prefixes(100, 50));
  engine.forget();
  engine.report(with_prefixes(160, 70));
  engine.report(with_prefixes(170, 70));

  EXPECT_EQ(engine.prefix_cache()->queried, 110u);
  EXPECT_EQ(engine.prefix_cache()->hit, 50u);
}

// ---- Adapters ---------------------------------------------------------------------------------

TEST(EngineState, KnowsNoAdaptersOfAnEngineThatHasNone) {
  EngineState engine;
  engine.report({});
  EXPECT_EQ(engine.adapters(), nullptr);
}

TEST(EngineState, KeepsTheAdaptersThatWereUsedLastInTheSlotsOfTheEngine) {
  EngineState engine;
  engine.report(with_adapters({1, 2}, 3));
  engine.report(with_adapters({}, 3));
  ASSERT_NE(engine.adapters(), nullptr);
  EXPECT_TRUE(engine.adapters()->contains(1) && engine.adapters()->contains(2))
      << "idle, but loaded";

  engine.report(with_adapters({2}, 3));
  engine.report(with_adapters({3, 4}, 3));

  EXPECT_TRUE(engine.adapters()->contains(2));
  EXPECT_TRUE(engine.adapters()->contains(3));
  EXPECT_TRUE(engine.adapters()->contains(4));
  EXPECT_FALSE(engine.adapters()->contains(1)) << "evicted";
  EXPECT_EQ(engine.adapters()->size(), 3u);
}

TEST(EngineState, HoldsWhatWasUsedBetweenTwoReports) {
  EngineState engine;
  engine.report(with_adapters({1}, 2));

  engine.report({.adapters = AdapterReport{.used_before = {3, 2, 1}, .slots = 2}});

  EXPECT_EQ((*engine.adapters())[0], 3u);
  EXPECT_EQ((*engine.adapters())[1], 2u);
  EXPECT_EQ(engine.adapters()->size(), 2u);
  EXPECT_EQ(engine.adapter_slots(), 2u);
}

TEST(EngineState, KnowsTheSlotsOfAnEngineThatNamesNoAdapters) {
  EngineState engine;
  EXPECT_EQ(engine.adapter_slots(), 0u);

  engine.report({.adapter_slots = 8});

  EXPECT_EQ(engine.adapter_slots(), 8u);
  EXPECT_EQ(engine.adapters(), nullptr);
  engine.forget();
  EXPECT_EQ(engine.adapter_slots(), 0u);
}

TEST(EngineState, KeepsWhatTheEngineOffers) {
  EngineState engine;
  EXPECT_TRUE(engine.offered()->empty());
  const std::uint64_t before = engine.offered_revision();

  engine.offers({{.name = 1, .adapter = 1}});
  const std::uint64_t after = engine.offered_revision();
  engine.offers({{.name = 1, .adapter = 1}});

  EXPECT_EQ(engine.offered()->size(), 1u);
  EXPECT_NE(after, before);
  EXPECT_EQ(engine.offered_revision(), after) << "it is the same list";
  engine.forget();
  EXPECT_EQ(engine.offered()->size(), 1u) << "no poll tells it";
}

TEST(EngineState, HoldsABoundedNumberOfAdapters) {
  EngineState engine;
  for (std::uint64_t hash = 1; hash <= 100; ++hash) engine.report(with_adapters({hash}, 0));

  EXPECT_EQ(engine.adapters()->size(), LoadedAdapters::capacity);
  EXPECT_TRUE(engine.adapters()->contains(100));
  EXPECT_FALSE(engine.adapters()->contains(100 - LoadedAdapters::capacity));
}

TEST(EngineState, ForgetsTheAdaptersOfAnEngineThatRestarts) {
  EngineState engine;
  engine.report(with_adapters({1, 2}, 4));
  engine.report(with_adapters({3}, 4, 2000));

  EXPECT_FALSE(engine.adapters()->contains(1));
  EXPECT_TRUE(engine.adapters()->contains(3));
  engine.report({.start_time = 3000});
  EXPECT_EQ(engine.adapters()->size(), 0u) << "it has used none since";
}

}  // namespace
}  // namespace evenkeel
