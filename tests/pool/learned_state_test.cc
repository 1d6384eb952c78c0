// What a process learns of its backends, continued by another one.
#include "evenkeel/pool/learned_state.h"

#include <gtest/gtest.h>

#include <memory>

#include "evenkeel/pool/pool.h"
#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

class LearnedStates : public ::testing::Test {
 protected:
  static std::shared_ptr<PoolState> pool_of(std::size_t backends, PickerConfig picker = {}) {
    PoolSpec spec = some_pool(backends, 0);
    spec.config.picker = std::move(picker);
    auto pool = PoolState::build(std::move(spec));
    pool->activate();
    pool->tick(noon);
    return pool;
  }
  static const Backend& first(const std::shared_ptr<PoolState>& pool) {
    return *pool->backends()[0];
  }
  /// Another process's pool that continues with what this one has learned of its first backend.
  static std::shared_ptr<PoolState> continued(const std::shared_ptr<PoolState>& before, Instant now,
                                              std::size_t backends) {
    auto pool = pool_of(backends, before->config().picker);
    pool->restore(first(pool), before->learned(first(before), now), now);
    return pool;
  }
};

TEST_F(LearnedStates, NothingIsLearnedOfAnUnusedBackend) {
  const auto pool = pool_of(2);
  EXPECT_TRUE(pool->learned(first(pool), noon).empty());
}

TEST_F(LearnedStates, AnAverageContinuesWithItsAge) {
  const auto before = pool_of(2);
  for (int i = 0; i < 5; ++i) first(before).stats().record_first_byte(300ms, noon);

  const auto pool = continued(before, noon + 7s, 2);

  const PeakEwma& latency = first(pool).stats().latency();
  EXPECT_NEAR(latency.seconds(), 0.3, 1e-6);
  EXPECT_EQ(latency.samples(), 5u);
  EXPECT_EQ(latency.age(noon + 7s), 7s);
}

TEST_F(LearnedStates, AnAverageOfABackendThatDoesNotServeIsNotBelieved) {
  const auto before = pool_of(2);
  first(before).stats().record_first_byte(300ms, noon);
  const auto pool = pool_of(2);
  first(pool).state().take_out(OutOfRotation::unhealthy);

  pool->restore(first(pool), before->learned(first(before), noon), noon);

  EXPECT_EQ(first(pool).stats().latency().samples(), 0u);
}

TEST_F(LearnedStates, AnEjectionContinuesUntilItsEnd) {
  const auto before = pool_of(3);
  const AttemptResult failed{.outcome = AttemptOutcome::failed, .status = 500};
  for (int i = 0; i < 5; ++i) first(before).record_outcome(failed, noon);
  ASSERT_TRUE(first(before).state().is_out(OutOfRotation::ejected));

  const auto pool = continued(before, noon + 500ms, 3);

  SharedBackend& shared = first(pool).shared();
  EXPECT_TRUE(shared.state.is_out(OutOfRotation::ejected));
  const Instant until = shared.state.details().until;
  EXPECT_EQ(until, first(before).state().details().until);
  EXPECT_EQ(describe_ejection(shared.state), "its requests failed before this process started");
  pool->tick(until + 1ms);
  EXPECT_TRUE(shared.state.in_rotation()) << "a request is its trial";
  first(pool).record_outcome(failed, until + 1s);
  EXPECT_EQ(shared.state.details().until, until + 31s) << "it is the second ejection";
}

TEST_F(LearnedStates, TheLastBackendIsNotEjectedAgain) {
  const auto before = pool_of(3);
  const AttemptResult failed{.outcome = AttemptOutcome::failed, .status = 500};
  for (int i = 0; i < 5; ++i) first(before).record_outcome(failed, noon);

  const auto pool = continued(before, noon, 1);

  EXPECT_FALSE(first(pool).state().is_out(OutOfRotation::ejected));
}

TEST_F(LearnedStates, ALearnedWeightContinuesWithTheSpeedThatItComesFrom) {
  const auto before = pool_of(2, {{.name = "weighted", .weights = WeightSource::observed}});
  Instant now = noon;
  for (int tick = 0; tick < 300; ++tick) {
    now += 100ms;
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t count = 0; count < 2; ++count)
        before->backends()[i]->stats().record_served(i == 0 ? 100ms : 300ms, now);
    }
    before->tick(now);
  }
  const LearnedState learned = before->learned(first(before), now);
  ASSERT_GT(learned.weight, 1.2);
  ASSERT_NEAR(learned.speed, 10, 0.5);

  const auto pool = continued(before, now, 2);

  EXPECT_NEAR(first(pool).findings().learned_weight(), learned.weight, 1e-6);
  EXPECT_EQ(pool->learned(first(pool), now).speed, learned.speed);
  const auto configured = pool_of(2);
  configured->restore(first(configured), learned, now);
  EXPECT_EQ(first(configured).findings().learned_weight(), 0) << "the pool learns no weights";
}

}  // namespace
}  // namespace evenkeel::testing
