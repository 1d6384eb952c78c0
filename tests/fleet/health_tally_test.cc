#include "fleet/health_tally.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using enum CheckResult;

HealthTally tally(HealthState state = HealthState::unchecked) {
  return {state, HealthConfig{.fall = 3, .rise = 2}};
}

TEST(HealthTally, TakesTheFirstGoodResultAtItsWord) {
  HealthTally health = tally();
  EXPECT_EQ(health.note(passed, false), HealthState::up);
}

TEST(HealthTally, TakesTheFirstBadResultAtItsWord) {
  HealthTally health = tally();
  EXPECT_EQ(health.note(timeout, false), HealthState::down);
  EXPECT_EQ(health.note(passed, false), HealthState::up);
}

TEST(HealthTally, SaysOfAServerThatNeverServedThatItStarts) {
  HealthTally health = tally();
  EXPECT_EQ(health.note(refused, false), HealthState::starting);
  EXPECT_EQ(health.note(not_ready, false), HealthState::starting);
  EXPECT_EQ(health.note(model_missing, false), HealthState::down);
  EXPECT_EQ(health.note(refused, false), HealthState::starting);
  EXPECT_EQ(health.note(passed, false), HealthState::up);
}

TEST(HealthTally, SaysOfAServerThatServedThatItIsDownWhenItRefuses) {
  HealthTally health = tally();
  health.note(passed, false);
  EXPECT_EQ(health.note(refused, false), HealthState::up);
  EXPECT_EQ(health.note(refused, false), HealthState::up);
  EXPECT_EQ(health.note(refused, false), HealthState::down);
}

TEST(HealthTally, FallsAfterFailuresInARowOnly) {
  HealthTally health = tally();
  health.note(passed, false);
  health.note(error, false);
  health.note(error, false);
  EXPECT_TRUE(health.in_doubt());
  health.note(passed, false);
  EXPECT_FALSE(health.in_doubt());
  health.note(error, false);
  EXPECT_EQ(health.note(error, false), HealthState::up);
  EXPECT_EQ(health.note(timeout, false), HealthState::down);
}

TEST(HealthTally, RisesAfterSuccessesInARowOnly) {
  HealthTally health = tally(HealthState::up);
  for (int i = 0; i < 3; ++i) health.note(error, false);
  EXPECT_EQ(health.note(passed, false), HealthState::down);
  EXPECT_EQ(health.note(error, false), HealthState::down);
  EXPECT_EQ(health.note(passed, false), HealthState::down);
  EXPECT_TRUE(health.in_doubt());
  EXPECT_EQ(health.note(passed, false), HealthState::up);
}

TEST(HealthTally, TellsAServerThatComesBackFromOneThatIsGone) {
  HealthTally health = tally(HealthState::up);
  for (int i = 0; i < 3; ++i) health.note(refused, false);
  EXPECT_EQ(health.state(), HealthState::down);
  EXPECT_EQ(health.note(not_ready, true), HealthState::starting);
  EXPECT_EQ(health.note(passed, false), HealthState::starting);
  EXPECT_EQ(health.note(passed, false), HealthState::up);
}

TEST(HealthTally, GivesWhoHasServedSoFarTheBenefitOfTheDoubt) {
  HealthTally health = tally(HealthState::up);
  EXPECT_EQ(health.note(error, false), HealthState::up);
}

}  // namespace
}  // namespace evenkeel
