#include "upstream/rise_fall_counter.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using enum CheckResult;

RiseFallCounter counter(HealthState state = HealthState::unchecked) {
  return {state, HealthConfig{.fall = 3, .rise = 2}};
}

TEST(RiseFallCounter, GoesUpOnTheFirstPass) {
  RiseFallCounter health = counter();
  EXPECT_EQ(health.record_result(passed, false), HealthState::up);
}

TEST(RiseFallCounter, GoesDownOnTheFirstFailure) {
  RiseFallCounter health = counter();
  EXPECT_EQ(health.record_result(timeout, false), HealthState::down);
  EXPECT_EQ(health.record_result(passed, false), HealthState::up);
}

TEST(RiseFallCounter, IsStartingUntilTheFirstPass) {
  RiseFallCounter health = counter();
  EXPECT_EQ(health.record_result(refused, false), HealthState::starting);
  EXPECT_EQ(health.record_result(not_ready, false), HealthState::starting);
  EXPECT_EQ(health.record_result(model_missing, false), HealthState::down);
  EXPECT_EQ(health.record_result(refused, false), HealthState::starting);
  EXPECT_EQ(health.record_result(passed, false), HealthState::up);
}

TEST(RiseFallCounter, IsDownWhenAServerThatWasUpRefuses) {
  RiseFallCounter health = counter();
  health.record_result(passed, false);
  EXPECT_EQ(health.record_result(refused, false), HealthState::up);
  EXPECT_EQ(health.record_result(refused, false), HealthState::up);
  EXPECT_EQ(health.record_result(refused, false), HealthState::down);
}

TEST(RiseFallCounter, FallsAfterFailuresInARowOnly) {
  RiseFallCounter health = counter();
  health.record_result(passed, false);
  health.record_result(error, false);
  health.record_result(error, false);
  EXPECT_TRUE(health.in_transition());
  health.record_result(passed, false);
  EXPECT_FALSE(health.in_transition());
  health.record_result(error, false);
  EXPECT_EQ(health.record_result(error, false), HealthState::up);
  EXPECT_EQ(health.record_result(timeout, false), HealthState::down);
}

TEST(RiseFallCounter, RisesAfterSuccessesInARowOnly) {
  RiseFallCounter health = counter(HealthState::up);
  for (int i = 0; i < 3; ++i) health.record_result(error, false);
  EXPECT_EQ(health.record_result(passed, false), HealthState::down);
  EXPECT_EQ(health.record_result(error, false), HealthState::down);
  EXPECT_EQ(health.record_result(passed, false), HealthState::down);
  EXPECT_TRUE(health.in_transition());
  EXPECT_EQ(health.record_result(passed, false), HealthState::up);
}

TEST(RiseFallCounter, IsStartingWhileARestartedServerLoads) {
  RiseFallCounter health = counter(HealthState::up);
  for (int i = 0; i < 3; ++i) health.record_result(refused, false);
  EXPECT_EQ(health.state(), HealthState::down);
  EXPECT_EQ(health.record_result(not_ready, true), HealthState::starting);
  EXPECT_EQ(health.record_result(passed, false), HealthState::starting);
  EXPECT_EQ(health.record_result(passed, false), HealthState::up);
}

TEST(RiseFallCounter, NeedsMoreSuccessesWhenItFlaps) {
  RiseFallCounter health = counter(HealthState::up);
  const auto passes_to_rise = [&health] {
    while (health.state() == HealthState::up) health.record_result(error, false);
    int passes = 0;
    for (; health.state() != HealthState::up; ++passes) health.record_result(passed, false);
    return passes;
  };
  EXPECT_EQ(passes_to_rise(), 2);
  EXPECT_EQ(passes_to_rise(), 4);
  EXPECT_EQ(passes_to_rise(), 8);
  EXPECT_EQ(passes_to_rise(), 8);

  for (std::uint32_t i = 0; i < RiseFallCounter::steady_passes; ++i) {
    health.record_result(passed, false);
  }
  EXPECT_EQ(passes_to_rise(), 2);
}

TEST(RiseFallCounter, StartsUpWhenAlreadyServing) {
  RiseFallCounter health = counter(HealthState::up);
  EXPECT_EQ(health.record_result(error, false), HealthState::up);
}

}  // namespace
}  // namespace evenkeel
