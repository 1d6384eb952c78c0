// Slow start: the ramp of a backend that returns or joins.
#include <gtest/gtest.h>

#include "evenkeel/pool/pool.h"
#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

class SlowStartTest : public ::testing::Test {
 protected:
  void given(std::size_t backends, std::uint32_t limit = 0,
             std::chrono::milliseconds slow_start = 10s) {
    spec_ = some_pool(backends, limit);
    spec_.config.slow_start = slow_start;
    state_ = PoolState::build(spec_);
    state_->activate();
    pass(100ms);
    pass(slow_start);
  }
  const Backend& backend(std::size_t index) { return *state_->backends()[index]; }
  std::uint32_t limit(std::size_t index) { return backend(index).slots().limit(); }
  void pass(Duration time) {
    now_ += time;
    state_->tick(now_);
  }
  void leave_and_return(std::size_t index) {
    backend(index).state().take_out(OutOfRotation::unhealthy);
    pass(100ms);
    backend(index).put_back(OutOfRotation::unhealthy);
    pass(100ms);
  }
  void put_in_flight(std::size_t index, int requests) {
    for (int i = 0; i < requests; ++i) ASSERT_TRUE(backend(index).try_acquire(now_));
  }

  PoolSpec spec_;
  Instant now_ = noon;
  std::shared_ptr<PoolState> state_;
};

TEST_F(SlowStartTest, RampsFromATenthOfTheFairShareToAllOfIt) {
  given(2);
  put_in_flight(0, 199);  // fair share: 100

  leave_and_return(1);

  EXPECT_EQ(limit(1), 10u);
  pass(5s);
  EXPECT_NEAR(limit(1), 55, 1);
  pass(5s);
  EXPECT_EQ(limit(1), 0u) << "no limit";
  EXPECT_EQ(limit(0), 0u);
}

TEST_F(SlowStartTest, NeverExceedsTheLimitOfTheFile) {
  given(2, 20);
  put_in_flight(0, 20);

  leave_and_return(1);

  EXPECT_EQ(limit(1), 2u);
  pass(9900ms);
  EXPECT_LE(limit(1), 20u);
  pass(1s);
  EXPECT_EQ(limit(1), 20u);
}

TEST_F(SlowStartTest, AppliesFromTheMomentOfTheReturn) {
  given(2, 20);
  put_in_flight(0, 20);
  backend(1).state().take_out(OutOfRotation::unhealthy);
  pass(100ms);

  backend(1).put_back(OutOfRotation::unhealthy);

  EXPECT_EQ(limit(1), 2u) << "requests that wait would fill it before the next tick";
}

TEST_F(SlowStartTest, LeavesADrainedBackendAndAStandbyOneTheSlotsOfTheirSessions) {
  for (const OutOfRotation reason : {OutOfRotation::draining, OutOfRotation::standby}) {
    given(2, 20);
    put_in_flight(0, 20);
    backend(1).state().take_out(reason);

    pass(100ms);

    EXPECT_EQ(limit(1), 20u);
  }
}

TEST_F(SlowStartTest, GoesOnThroughAReload) {
  given(2, 20);
  put_in_flight(0, 20);
  leave_and_return(1);
  ASSERT_EQ(limit(1), 2u);

  state_ = PoolState::build(spec_, state_.get());
  state_->activate();
  EXPECT_EQ(limit(1), 2u);

  spec_.backends[1].max_in_flight = 1;
  state_ = PoolState::build(spec_, state_.get());
  state_->activate();
  EXPECT_EQ(limit(1), 1u) << "the file allows no more";
}

TEST_F(SlowStartTest, RampsABackendThatWasAvoidedForAsLongAsThat) {
  given(2);
  put_in_flight(0, 198);
  backend(1).record_outcome(classify(429, 4s), now_);
  pass(100ms);
  EXPECT_EQ(limit(1), 0u) << "its requests in flight go on";
  pass(3900ms);
  put_in_flight(1, 1);

  backend(1).accepted(false, now_, now_);
  pass(100ms);

  EXPECT_EQ(limit(1), 10u);
  pass(2s);
  EXPECT_NEAR(limit(1), 55, 2);
  pass(2s);
  EXPECT_EQ(limit(1), 0u);
}

TEST_F(SlowStartTest, DoesNotLimitTheOnlyBackend) {
  given(1);

  leave_and_return(0);

  EXPECT_EQ(limit(0), 0u);
}

TEST_F(SlowStartTest, DoesNotApplyToBackendsThatStartWithThePool) {
  spec_ = some_pool(2, 0);
  spec_.config.slow_start = 10s;
  state_ = PoolState::build(spec_);
  state_->activate();
  for (std::size_t each : {0u, 1u}) backend(each).state().take_out(OutOfRotation::starting);
  pass(100ms);
  backend(0).put_back(OutOfRotation::starting);
  pass(3s);

  backend(1).put_back(OutOfRotation::starting);
  pass(100ms);

  EXPECT_EQ(limit(1), 0u);
}

TEST_F(SlowStartTest, AppliesToABackendThatAReloadAdds) {
  given(2);
  put_in_flight(0, 100);
  spec_.backends.push_back(some_spec(2));

  state_ = PoolState::build(spec_, state_.get());
  state_->activate();
  pass(100ms);

  EXPECT_GT(limit(2), 0u);
  EXPECT_LE(limit(2), 4u);
  EXPECT_EQ(limit(0), 0u);
}

TEST_F(SlowStartTest, IsOffByDefault) {
  given(2, 0, 0s);

  leave_and_return(1);

  EXPECT_EQ(limit(1), 0u);
}

TEST_F(SlowStartTest, EndsWhenAReloadTurnsItOff) {
  given(2);
  put_in_flight(0, 100);
  leave_and_return(1);
  ASSERT_GT(limit(1), 0u);
  spec_.config.slow_start = 0s;

  state_ = PoolState::build(spec_, state_.get());
  state_->activate();
  pass(100ms);

  EXPECT_EQ(limit(1), 0u);
}

}  // namespace
}  // namespace evenkeel::testing
