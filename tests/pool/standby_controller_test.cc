#include "pool/standby_controller.h"

#include <gtest/gtest.h>

#include <cmath>

#include "evenkeel/base/loop.h"
#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr double unknown = LoadSample::unknown;

TEST(LoadOf, IsTheMaximumOfTheKnownValues) {
  EXPECT_DOUBLE_EQ(load_of({0.5, unknown, unknown}, 0.8), 0.5);
  EXPECT_DOUBLE_EQ(load_of({0.5, 0.7, unknown}, 0.8), 0.7);
  EXPECT_DOUBLE_EQ(load_of({unknown, 0.3, 5}, 0.8), 0.8)
      << "a queue of five calls for standby backends";
  EXPECT_DOUBLE_EQ(load_of({unknown, 0.3, 1000}, 0.8), 2)
      << "one long queue counts for at most two backends";
  EXPECT_TRUE(std::isnan(load_of({unknown, unknown, unknown}, 0.8)));
}

// Six regular backends, two standby backends.
class StandbyControllerOfEight : public ::testing::Test {
 protected:
  // Ticks the controller ten times a second, for so long.
  std::uint32_t tick(PoolDemand sample, Duration how_long) {
    std::uint32_t wanted = 0;
    for (const Instant end = now + how_long; now < end; now += 100ms) {
      wanted = rule.tick(sample, spec, now);
    }
    return wanted;
  }
  static PoolDemand loaded(double load, std::uint64_t outstanding) {
    return {.load = load, .active = 6, .standby = 2, .outstanding = outstanding};
  }

  StandbyController rule;
  const StandbyConfig spec{.enter = 0.8, .leave = 0.5, .dwell = 10s};
  Instant now = noon;
};

TEST_F(StandbyControllerOfEight, KeepsThemOutWhileTheRegularBackendsCarryTheLoad) {
  EXPECT_EQ(tick(loaded(6 * 0.75, 60), 60s), 0u);
}

TEST_F(StandbyControllerOfEight, AddsThemAFewHundredMillisecondsAfterAJump) {
  tick(loaded(1, 10), 10s);

  EXPECT_EQ(tick(loaded(5, 50), 300ms), 0u) << "a blip";
  EXPECT_EQ(tick(loaded(5, 50), 100ms), 1u) << "5 / 0.8 is 6.25: seven";
}

TEST_F(StandbyControllerOfEight, AddsAllOfThemForALargeJump) {
  EXPECT_EQ(tick(loaded(9, 90), 400ms), 2u);
}

TEST_F(StandbyControllerOfEight, IgnoresAShortSpike) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(tick(loaded(9, 90), 200ms), 0u);
    EXPECT_EQ(tick(loaded(3, 30), 100ms), 0u);
  }
}

TEST_F(StandbyControllerOfEight, AddsThemAtOnceWhenRequestsQueue) {
  PoolDemand sample = loaded(7, 70);
  sample.has_queue = true;

  EXPECT_EQ(tick(sample, 100ms), 2u);
}

TEST_F(StandbyControllerOfEight, ReplacesEachBackendThatIsDownAtOnce) {
  PoolDemand sample = loaded(1, 10);
  sample.active = 5;
  sample.down = 1;

  EXPECT_EQ(tick(sample, 100ms), 1u);
  sample.active = 3;
  sample.down = 3;
  EXPECT_EQ(tick(sample, 100ms), 2u);
}

TEST_F(StandbyControllerOfEight, RemovesThemWhenTheBackendsThatWereDownAreUp) {
  PoolDemand sample = loaded(1, 10);
  sample.active = 5;
  sample.down = 1;
  tick(sample, 1s);

  EXPECT_EQ(tick(loaded(1, 10), 9s), 1u);
  EXPECT_EQ(tick(loaded(1, 10), 2s), 0u);
}

TEST_F(StandbyControllerOfEight, RemovesThemWhenTheLoadIsLowForTheDwell) {
  tick(loaded(6, 80), 5s);

  EXPECT_EQ(tick(loaded(1, 10), 9s), 2u);
  EXPECT_EQ(tick(loaded(1, 10), 2s), 0u);
}

TEST_F(StandbyControllerOfEight, KeepsThemThatTheLoadStillNeeds) {
  tick(loaded(6, 80), 5s);

  // Over eight that is 0.45 each; over six it would be 0.6: more than `leave`.
  EXPECT_EQ(tick(loaded(3.6, 36), 120s), 2u);
}

TEST_F(StandbyControllerOfEight, UsesTheHighestNeedOfTheDwell) {
  tick(loaded(6, 80), 5s);

  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(tick(loaded(1, 10), 8s), 2u);
    EXPECT_EQ(tick(loaded(6, 80), 1s), 2u) << "the next wave";
  }
}

TEST_F(StandbyControllerOfEight, RemovesOneWhereOneIsEnough) {
  tick(loaded(6, 80), 5s);

  EXPECT_EQ(tick(loaded(3.2, 20), 11s), 1u) << "3.2 / 0.5 is 6.4: seven";
}

TEST_F(StandbyControllerOfEight, DoesNotMistakeAnEmptyQueueForTheEndOfTheLoad) {
  // These engines report only their queue, which is empty as soon as the standby backends serve.
  tick(loaded(6, 80), 1s);

  EXPECT_EQ(tick(loaded(0, 75), 60s), 2u) << "they still carry nearly as much";
  EXPECT_EQ(tick(loaded(0, 20), 11s), 0u);
}

TEST_F(StandbyControllerOfEight, MeasuresTheLoadAgainstItsPeak) {
  tick(loaded(6, 30), 500ms);  // the jump has only begun
  tick(loaded(7, 90), 5s);

  EXPECT_EQ(tick(loaded(0, 50), 11s), 0u) << "less than 5/8 of 90";
}

TEST_F(StandbyControllerOfEight, DoesNotOscillateUnderASteadyLoad) {
  // The same work loads six backends to 0.9 each and eight to 0.675: the sum does not change.
  int changes = 0;
  std::uint32_t before = 0;
  for (int i = 0; i < 6000; ++i) {
    const std::uint32_t wanted = tick(loaded(5.4, 54), 100ms);
    changes += wanted != before;
    before = wanted;
  }

  EXPECT_EQ(changes, 1);
}

TEST(LatencyRise, IsOneWhileNothingChanges) {
  LatencyRise latency_rise;
  for (int i = 0; i < 100; ++i) EXPECT_NEAR(latency_rise.tick(0.2, noon + i * 100ms), 1, 0.03);
}

TEST(LatencyRise, IsTheRatioOfFirstByteTimes) {
  LatencyRise latency_rise;
  for (int i = 0; i < 100; ++i) latency_rise.tick(0.2, noon + i * 100ms);

  EXPECT_NEAR(latency_rise.tick(0.8, noon + 10s), 4, 0.15);
}

TEST(LatencyRise, KeepsItsBaselineOverAWeekWithoutTraffic) {
  LatencyRise latency_rise;
  Instant now = noon;
  latency_rise.tick(0.2, now);
  for (const Instant end = now + std::chrono::hours(24 * 7); now < end; now += 60s) {
    latency_rise.tick(LoadSample::unknown, now);
  }

  EXPECT_NEAR(latency_rise.tick(1, now), 5, 0.5);
}

TEST(LatencyRise, AdaptsToASteadyLoad) {
  LatencyRise latency_rise;
  latency_rise.tick(0.2, noon);
  for (int i = 0; i < 1200; ++i) latency_rise.tick(0.8, noon + i * 100ms);

  EXPECT_LT(latency_rise.tick(0.8, noon + 2min), 2);
}

TEST(LatencyRise, KeepsItsBaselineWhileNothingIsKnown) {
  LatencyRise latency_rise;
  for (int i = 0; i < 100; ++i) latency_rise.tick(0.2, noon + i * 100ms);
  EXPECT_TRUE(std::isnan(latency_rise.tick(unknown, noon + 11s)));

  EXPECT_NEAR(latency_rise.tick(0.8, noon + 12s), 4, 0.2);
}

// ---- with a pool ----

class PoolWithStandby : public ::testing::Test {
 protected:
  static PoolSpec spec_of(std::size_t active, std::size_t standby, std::uint32_t limit = 0) {
    PoolSpec spec = some_pool(active + standby, limit);
    for (std::size_t i = active; i < active + standby; ++i) spec.backends[i].config.standby = true;
    spec.config.standby.dwell = 10s;
    return spec;
  }
  const SharedBackend& shared(std::size_t index) { return state->backends()[index]->shared(); }
  void tick(Duration how_long) {
    for (const Instant end = now + how_long; now < end; now += 100ms) state->tick(now);
  }
  void engines_report(const LoadSample& values) {
    for (const auto& backend : state->backends()) {
      backend->signals().publish(values, now, backend->slots().in_flight());
    }
  }

  std::shared_ptr<PoolState> state = PoolState::build(spec_of(2, 2));
  Instant now = noon;
};

TEST_F(PoolWithStandby, GivesThemNoRequestsUntilTheyAreNeeded) {
  auto picker = state->new_picker(1);

  tick(1s);
  const auto counts = count_picks(*picker, state->backends(), 100);

  EXPECT_EQ(counts[2] + counts[3], 0);
  EXPECT_TRUE(shared(2).state.is_out(OutOfRotation::standby));
}

TEST_F(PoolWithStandby, AddsThemWhenTheKvCachesAreFull) {
  engines_report({.running = 20, .waiting = 0, .kv_cache_ratio = 0.9});
  tick(500ms);

  EXPECT_TRUE(shared(2).state.in_rotation());
  EXPECT_FALSE(shared(3).state.in_rotation()) << "1.8 / 0.8 is 2.25: three";
}

TEST_F(PoolWithStandby, AddsThemWhenTheEnginesQueuesGrow) {
  engines_report({.running = 20, .waiting = 30});
  tick(500ms);

  EXPECT_TRUE(shared(2).state.in_rotation());
  EXPECT_TRUE(shared(3).state.in_rotation());
}

TEST_F(PoolWithStandby, AddsThemWhenAllSlotsAreTaken) {
  state = PoolState::build(spec_of(2, 2, 10));
  for (int i = 0; i < 9; ++i) {
    state->backends()[0]->try_acquire(now);
    state->backends()[1]->try_acquire(now);
  }
  tick(500ms);

  EXPECT_TRUE(shared(2).state.in_rotation());
}

TEST_F(PoolWithStandby, AddsOneForAnUnhealthyBackend) {
  state->backends()[0]->state().take_out(OutOfRotation::unhealthy);
  tick(100ms);

  EXPECT_TRUE(shared(2).state.in_rotation());
  EXPECT_FALSE(shared(3).state.in_rotation());
}

TEST_F(PoolWithStandby, AddsOneForABackendThatCannotBeConnected) {
  state->backends()[0]->state().connect_failed(now);
  tick(100ms);

  EXPECT_TRUE(shared(2).state.in_rotation());
}

TEST_F(PoolWithStandby, SkipsAnUnavailableOne) {
  state->backends()[2]->state().take_out(OutOfRotation::unhealthy);
  state->backends()[0]->state().take_out(OutOfRotation::unhealthy);
  tick(100ms);

  EXPECT_TRUE(shared(2).state.is_out(OutOfRotation::standby));
  EXPECT_TRUE(shared(3).state.in_rotation());
}

TEST_F(PoolWithStandby, ReplacesOneThatFails) {
  state->backends()[0]->state().take_out(OutOfRotation::unhealthy);
  tick(100ms);
  state->backends()[2]->state().take_out(OutOfRotation::unhealthy);
  tick(100ms);

  EXPECT_TRUE(shared(3).state.in_rotation());
  state->backends()[2]->put_back(OutOfRotation::unhealthy);
  EXPECT_FALSE(shared(2).state.in_rotation()) << "it is on standby again";
}

TEST_F(PoolWithStandby, WaitsForBackendsThatAreStarting) {
  state->backends()[0]->state().take_out(OutOfRotation::starting);
  state->backends()[1]->state().take_out(OutOfRotation::starting);
  tick(1s);

  EXPECT_FALSE(shared(2).state.in_rotation()) << "no request waits";
}

TEST_F(PoolWithStandby, LetsRequestsInFlightFinish) {
  engines_report({.waiting = 30});
  tick(500ms);
  ASSERT_TRUE(state->backends()[2]->try_acquire(now));

  engines_report({.running = 0, .waiting = 0});
  tick(11s);
  EXPECT_TRUE(shared(2).state.is_out(OutOfRotation::standby));
  EXPECT_EQ(shared(2).slots.in_flight(), 1u);
  state->backends()[2]->release();
}

TEST_F(PoolWithStandby, KeepsThemInServiceOverAReload) {
  engines_report({.waiting = 30});
  tick(500ms);
  ASSERT_TRUE(shared(2).state.in_rotation());

  state = PoolState::build(spec_of(2, 2), state.get());
  EXPECT_TRUE(shared(2).state.in_rotation());
  engines_report({.waiting = 30});
  tick(1s);
  EXPECT_TRUE(shared(2).state.in_rotation());
}

TEST_F(PoolWithStandby, FollowsAChangedConfiguration) {
  state = PoolState::build(spec_of(4, 0), state.get());
  tick(100ms);
  EXPECT_TRUE(shared(2).state.in_rotation() && shared(3).state.in_rotation()) << "regular ones now";

  state = PoolState::build(spec_of(1, 3), state.get());
  tick(100ms);
  EXPECT_TRUE(shared(0).state.in_rotation());
  EXPECT_TRUE(shared(1).state.is_out(OutOfRotation::standby));
}

TEST_F(PoolWithStandby, ServesWaitersWhenTheOthersAreDown) {
  Loop loop;
  Pool pool(state, loop, 1);
  for (std::size_t i : {0u, 1u}) state->backends()[i]->state().take_out(OutOfRotation::unhealthy);

  auto waiting = pool.acquire({});
  ASSERT_FALSE(waiting.ready()) << "there is hope: the standby backends are well";
  tick(100ms);
  loop.run_until([&] { return waiting.ready(); });

  auto lease = waiting.take();
  ASSERT_TRUE(lease);
  EXPECT_TRUE(lease->backend()->spec().config.standby);
}

}  // namespace
}  // namespace evenkeel::testing
