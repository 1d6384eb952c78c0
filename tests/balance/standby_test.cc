#include "balance/standby.h"

#include <gtest/gtest.h>

#include <cmath>

#include "balance/some_backends.h"
#include "evenkeel/base/loop.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr double unknown = SignalValues::unknown;

TEST(LoadOf, IsTheTightestOfWhatIsKnown) {
  EXPECT_DOUBLE_EQ(load_of({0.5, unknown, unknown}, 0.8), 0.5);
  EXPECT_DOUBLE_EQ(load_of({0.5, 0.7, unknown}, 0.8), 0.7);
  EXPECT_DOUBLE_EQ(load_of({unknown, 0.3, 5}, 0.8), 0.8) << "a queue of five: spares are due";
  EXPECT_DOUBLE_EQ(load_of({unknown, 0.3, 1000}, 0.8), 2) << "one long queue is one server's need";
  EXPECT_TRUE(std::isnan(load_of({unknown, unknown, unknown}, 0.8)));
}

// Six others, two spares.
class StandbyRuleOfEight : public ::testing::Test {
 protected:
  // Turns it for so long, ten times a second.
  std::uint32_t turn(PoolBurden burden, Duration how_long) {
    std::uint32_t wanted = 0;
    for (const Instant end = now + how_long; now < end; now += 100ms) {
      wanted = rule.turn(burden, spec, now);
    }
    return wanted;
  }
  static PoolBurden loaded(double load, std::uint64_t carried) {
    return {.load = load, .active = 6, .spares = 2, .carried = carried};
  }

  StandbyRule rule;
  const SparesSpec spec{.enter = 0.8, .leave = 0.5, .dwell = 10s};
  Instant now = noon;
};

TEST_F(StandbyRuleOfEight, LeavesSparesAloneWhileTheOthersCarryTheLoad) {
  EXPECT_EQ(turn(loaded(6 * 0.75, 60), 60s), 0u);
}

TEST_F(StandbyRuleOfEight, LetsThemInAFewHundredMillisecondsAfterAJump) {
  turn(loaded(1, 10), 10s);

  EXPECT_EQ(turn(loaded(5, 50), 300ms), 0u) << "a blip";
  EXPECT_EQ(turn(loaded(5, 50), 100ms), 1u) << "5 / 0.8 is 6.25: seven";
}

TEST_F(StandbyRuleOfEight, LetsAllInForAGreatJump) { EXPECT_EQ(turn(loaded(9, 90), 400ms), 2u); }

TEST_F(StandbyRuleOfEight, DoesNotMindABlip) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(turn(loaded(9, 90), 200ms), 0u);
    EXPECT_EQ(turn(loaded(3, 30), 100ms), 0u);
  }
}

TEST_F(StandbyRuleOfEight, LetsThemInAtOnceWhenRequestsWaitInLine) {
  PoolBurden burden = loaded(7, 70);
  burden.line = true;

  EXPECT_EQ(turn(burden, 100ms), 2u);
}

TEST_F(StandbyRuleOfEight, ReplacesEachThatIsDownAtOnce) {
  PoolBurden burden = loaded(1, 10);
  burden.active = 5;
  burden.down = 1;

  EXPECT_EQ(turn(burden, 100ms), 1u);
  burden.active = 3;
  burden.down = 3;
  EXPECT_EQ(turn(burden, 100ms), 2u);
}

TEST_F(StandbyRuleOfEight, LetsThemGoWhenThoseThatWereDownAreBack) {
  PoolBurden burden = loaded(1, 10);
  burden.active = 5;
  burden.down = 1;
  turn(burden, 1s);

  EXPECT_EQ(turn(loaded(1, 10), 9s), 1u);
  EXPECT_EQ(turn(loaded(1, 10), 2s), 0u);
}

TEST_F(StandbyRuleOfEight, LetsThemGoWhenTheLoadHasGoneForTheDwell) {
  turn(loaded(6, 80), 5s);

  EXPECT_EQ(turn(loaded(1, 10), 9s), 2u);
  EXPECT_EQ(turn(loaded(1, 10), 2s), 0u);
}

TEST_F(StandbyRuleOfEight, KeepsThemWhileTheOthersWouldBeLoadedWithoutThem) {
  turn(loaded(6, 80), 5s);

  // Over eight that is 0.45 each; over six it would be 0.6: more than `leave`.
  EXPECT_EQ(turn(loaded(3.6, 36), 120s), 2u);
}

TEST_F(StandbyRuleOfEight, LooksBackOverTheDwellBeforeItLetsThemGo) {
  turn(loaded(6, 80), 5s);

  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(turn(loaded(1, 10), 8s), 2u);
    EXPECT_EQ(turn(loaded(6, 80), 1s), 2u) << "the next wave";
  }
}

TEST_F(StandbyRuleOfEight, LetsOneGoWhereOneIsEnough) {
  turn(loaded(6, 80), 5s);

  EXPECT_EQ(turn(loaded(3.2, 20), 11s), 1u) << "3.2 / 0.5 is 6.4: seven";
}

TEST_F(StandbyRuleOfEight, DoesNotTakeAnEmptyQueueForTheEndOfTheLoad) {
  // All that these engines tell is their queue, and it is empty as soon as the spares are in.
  turn(loaded(6, 80), 1s);

  EXPECT_EQ(turn(loaded(0, 75), 60s), 2u) << "they still carry nearly as much";
  EXPECT_EQ(turn(loaded(0, 20), 11s), 0u);
}

TEST_F(StandbyRuleOfEight, TakesTheMostThatWasCarriedForTheMark) {
  turn(loaded(6, 30), 500ms);  // the jump has only begun
  turn(loaded(7, 90), 5s);

  EXPECT_EQ(turn(loaded(0, 50), 11s), 0u) << "less than 5/8 of 90";
}

TEST_F(StandbyRuleOfEight, DoesNotSwingUnderALoadThatStays) {
  // So much work that six are full at 0.9 and eight at 0.675: of nothing does the sum change.
  int changes = 0;
  std::uint32_t before = 0;
  for (int i = 0; i < 6000; ++i) {
    const std::uint32_t wanted = turn(loaded(5.4, 54), 100ms);
    changes += wanted != before;
    before = wanted;
  }

  EXPECT_EQ(changes, 1);
}

TEST(Slowdown, IsNoneWhileNothingChanges) {
  Slowdown slowdown;
  for (int i = 0; i < 100; ++i) EXPECT_NEAR(slowdown.turn(0.2, noon + i * 100ms), 1, 0.03);
}

TEST(Slowdown, IsHowMuchLaterFirstBytesAreThanTheyWere) {
  Slowdown slowdown;
  for (int i = 0; i < 100; ++i) slowdown.turn(0.2, noon + i * 100ms);

  EXPECT_NEAR(slowdown.turn(0.8, noon + 10s), 4, 0.15);
}

TEST(Slowdown, RemembersTheCalmOverAWeekWithoutTraffic) {
  Slowdown slowdown;
  Instant now = noon;
  slowdown.turn(0.2, now);
  for (const Instant end = now + std::chrono::hours(24 * 7); now < end; now += 60s) {
    slowdown.turn(SignalValues::unknown, now);
  }

  EXPECT_NEAR(slowdown.turn(1, now), 5, 0.5);
}

TEST(Slowdown, GetsUsedToALoadThatStays) {
  Slowdown slowdown;
  slowdown.turn(0.2, noon);
  for (int i = 0; i < 1200; ++i) slowdown.turn(0.8, noon + i * 100ms);

  EXPECT_LT(slowdown.turn(0.8, noon + 2min), 2);
}

TEST(Slowdown, KeepsItsMeasureWhileNothingIsKnown) {
  Slowdown slowdown;
  for (int i = 0; i < 100; ++i) slowdown.turn(0.2, noon + i * 100ms);
  EXPECT_TRUE(std::isnan(slowdown.turn(unknown, noon + 11s)));

  EXPECT_NEAR(slowdown.turn(0.8, noon + 12s), 4, 0.2);
}

// ---- with a pool ----

class PoolWithSpares : public ::testing::Test {
 protected:
  static PoolSpec spec_of(std::size_t active, std::size_t spares, std::uint32_t limit = 0) {
    PoolSpec spec = some_pool(active + spares, limit);
    for (std::size_t i = active; i < active + spares; ++i) spec.backends[i].standby = true;
    spec.spares.dwell = 10s;
    return spec;
  }
  const Load& load(std::size_t index) { return state->backends()[index]->load(); }
  void turn(Duration how_long) {
    for (const Instant end = now + how_long; now < end; now += 100ms) state->turn(now);
  }
  void engines_tell(const SignalValues& values) {
    for (const auto& backend : state->backends()) {
      backend->load().signals().publish(values, now, backend->load().in_flight());
    }
  }

  std::shared_ptr<PoolState> state = PoolState::build(spec_of(2, 2));
  Instant now = noon;
};

TEST_F(PoolWithSpares, GivesThemNothingUntilTheyAreNeeded) {
  auto picker = state->new_picker(1);

  turn(1s);
  const auto counts = count_picks(*picker, state->backends(), 100);

  EXPECT_EQ(counts[2] + counts[3], 0);
  EXPECT_TRUE(load(2).closed(Closure::standby));
}

TEST_F(PoolWithSpares, LetsThemInWhenTheKvCachesAreFull) {
  engines_tell({.running = 20, .waiting = 0, .kv_cache_ratio = 0.9});
  turn(500ms);

  EXPECT_TRUE(load(2).open());
  EXPECT_FALSE(load(3).open()) << "1.8 / 0.8 is 2.25: three";
}

TEST_F(PoolWithSpares, LetsThemInWhenTheEnginesQueuesGrow) {
  engines_tell({.running = 20, .waiting = 30});
  turn(500ms);

  EXPECT_TRUE(load(2).open());
  EXPECT_TRUE(load(3).open());
}

TEST_F(PoolWithSpares, LetsThemInWhenThePlacesAreTaken) {
  state = PoolState::build(spec_of(2, 2, 10));
  for (int i = 0; i < 9; ++i) {
    state->backends()[0]->try_enter(now);
    state->backends()[1]->try_enter(now);
  }
  turn(500ms);

  EXPECT_TRUE(load(2).open());
}

TEST_F(PoolWithSpares, LetsOneInForOneThatIsUnhealthy) {
  state->backends()[0]->load().close(Closure::unhealthy);
  turn(100ms);

  EXPECT_TRUE(load(2).open());
  EXPECT_FALSE(load(3).open());
}

TEST_F(PoolWithSpares, LetsOneInForOneThatCannotBeConnected) {
  state->backends()[0]->connect_failed(now);
  turn(100ms);

  EXPECT_TRUE(load(2).open());
}

TEST_F(PoolWithSpares, PassesOverASpareThatCouldNotServe) {
  state->backends()[2]->load().close(Closure::unhealthy);
  state->backends()[0]->load().close(Closure::unhealthy);
  turn(100ms);

  EXPECT_TRUE(load(2).closed(Closure::standby));
  EXPECT_TRUE(load(3).open());
}

TEST_F(PoolWithSpares, TakesTheOtherWhenASpareInServiceFails) {
  state->backends()[0]->load().close(Closure::unhealthy);
  turn(100ms);
  state->backends()[2]->load().close(Closure::unhealthy);
  turn(100ms);

  EXPECT_TRUE(load(3).open());
  state->backends()[2]->reopen(Closure::unhealthy);
  EXPECT_FALSE(load(2).open()) << "it is a spare again";
}

TEST_F(PoolWithSpares, WaitsForThoseThatAreStarting) {
  state->backends()[0]->load().close(Closure::starting);
  state->backends()[1]->load().close(Closure::starting);
  turn(1s);

  EXPECT_FALSE(load(2).open()) << "nobody is waiting";
}

TEST_F(PoolWithSpares, LetsRequestsInFlightEndInTheirOwnTime) {
  engines_tell({.waiting = 30});
  turn(500ms);
  ASSERT_TRUE(state->backends()[2]->try_enter(now));

  engines_tell({.running = 0, .waiting = 0});
  turn(11s);
  EXPECT_TRUE(load(2).closed(Closure::standby));
  EXPECT_EQ(load(2).in_flight(), 1u);
  state->backends()[2]->leave();
}

TEST_F(PoolWithSpares, KeepsThemInServiceOverAReload) {
  engines_tell({.waiting = 30});
  turn(500ms);
  ASSERT_TRUE(load(2).open());

  state = PoolState::build(spec_of(2, 2), state.get());
  EXPECT_TRUE(load(2).open());
  engines_tell({.waiting = 30});
  turn(1s);
  EXPECT_TRUE(load(2).open());
}

TEST_F(PoolWithSpares, FollowsTheFileWhenItChanges) {
  state = PoolState::build(spec_of(4, 0), state.get());
  turn(100ms);
  EXPECT_TRUE(load(2).open() && load(3).open()) << "spares no more";

  state = PoolState::build(spec_of(1, 3), state.get());
  turn(100ms);
  EXPECT_TRUE(load(0).open());
  EXPECT_TRUE(load(1).closed(Closure::standby));
}

TEST_F(PoolWithSpares, ServesThoseWhoWaitWhenTheOthersAreGone) {
  Loop loop;
  Pool pool(state, loop, 1);
  for (std::size_t i : {0u, 1u}) state->backends()[i]->load().close(Closure::unhealthy);

  auto waiting = pool.place({});
  ASSERT_FALSE(waiting.ready()) << "there is hope: the spares are well";
  turn(100ms);
  loop.run_until([&] { return waiting.ready(); });

  auto lease = waiting.take();
  ASSERT_TRUE(lease);
  EXPECT_TRUE(lease->backend()->spec().standby);
}

}  // namespace
}  // namespace evenkeel::testing
