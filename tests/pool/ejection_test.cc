// How an ejected backend returns.
#include <gtest/gtest.h>

#include <initializer_list>

#include "pool/outlier_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

class EjectedBackend : public OutlierPool {
 protected:
  /// The first backend's next request is a trial, and fails.
  void fail_trial() {
    ASSERT_TRUE(backend(0).try_acquire(now_));
    backend(0).record_outcome(failed, now_);
  }
  /// Each trial of the first backend fails; expects these ejections, one after the other.
  void expect_ejections(std::initializer_list<Duration> times) {
    for (const Duration time : times) {
      pass(time - 100ms);
      ASSERT_TRUE(is_ejected(0));
      pass(100ms);
      ASSERT_FALSE(is_ejected(0)) << seconds_of(time);
      fail_trial();
      ASSERT_TRUE(is_ejected(0));
    }
  }
};

TEST_F(EjectedBackend, GetsOneTrialAfterItsEjection) {
  given(3);
  fail(0);

  pass(1900ms);
  EXPECT_TRUE(is_ejected(0));
  pass(200ms);
  ASSERT_FALSE(is_ejected(0));
  EXPECT_FALSE(shared(0).state.avoided(now_));

  ASSERT_TRUE(backend(0).try_acquire(now_));
  EXPECT_TRUE(shared(0).state.avoided(now_ + 29s)) << "no other request before the outcome";
  EXPECT_FALSE(shared(0).state.avoided(now_ + 30s))
      << "its client may have left, without an outcome";
}

TEST_F(EjectedBackend, GetsTheNextTrialAtOnceWhenTheFirstIsAnsweredWithoutADecision) {
  for (const AttemptOutcome outcome :
       {AttemptOutcome::client_error, AttemptOutcome::overloaded, AttemptOutcome::unreachable}) {
    given(3);
    fail(0);
    pass(2100ms);
    ASSERT_TRUE(backend(0).try_acquire(now_));

    backend(0).record_outcome({.outcome = outcome}, now_);

    const bool waits = outcome != AttemptOutcome::client_error;
    EXPECT_EQ(shared(0).state.avoided(now_ + 900ms), waits);
    EXPECT_FALSE(shared(0).state.avoided(now_ + 4s)) << "as without an ejection";
    EXPECT_FALSE(shared(0).state.serving());
  }
}

TEST_F(EjectedBackend, GetsTheNextTrialOnceTheFirstBeginsToAnswer) {
  given(3);
  fail(0);
  pass(2100ms);
  ASSERT_TRUE(backend(0).try_acquire(now_));

  backend(0).accepted(false, now_, now_ + 1s);

  EXPECT_FALSE(shared(0).state.avoided(now_ + 1s));
  EXPECT_FALSE(shared(0).state.serving()) << "it may still break";
}

TEST_F(EjectedBackend, ReturnsWhenItsTrialSucceeds) {
  given(3);
  fail(0);
  pass(2s);
  ASSERT_TRUE(backend(0).try_acquire(now_));

  backend(0).record_outcome(succeeded, now_ + 1s);

  EXPECT_NE(shared(0).state.why(), Avoidance::ejected);
  EXPECT_TRUE(shared(0).state.serving());
}

TEST_F(EjectedBackend, IsEjectedLongWhenItsTrialCostsAClientItsRequest) {
  given(3);
  fail(0);
  expect_ejections({2s, 30s, 300s, 300s});
}

TEST_F(EjectedBackend, IsEjectedForADayAtMost) {
  given(3, {.ejection = 3h});
  fail(0);
  expect_ejections({2s, 3h, 24h, 24h});
}

TEST_F(EjectedBackend, GetsAnotherTrialIfTheFirstHasNoOutcome) {
  given(3);
  fail(0);
  pass(2s);
  fail_trial();
  pass(30s);
  fail_trial();
  pass(300s);
  ASSERT_TRUE(backend(0).try_acquire(now_));

  backend(0).record_outcome({.outcome = AttemptOutcome::abandoned}, now_);

  EXPECT_TRUE(shared(0).state.avoided(now_ + 29s));
  EXPECT_FALSE(shared(0).state.avoided(now_ + 30s));
}

TEST_F(EjectedBackend, IsEjectedTwiceAsLongWhenItsTrialIsRetried) {
  given(3, {}, true);
  fail(0);
  expect_ejections({2s, 4s, 8s, 16s, 30s, 30s});
}

TEST_F(EjectedBackend, IsForgivenInTime) {
  given(3);
  fail(0);
  pass(2s);
  backend(0).record_outcome(failed, now_);
  pass(30s);
  backend(0).record_outcome(succeeded, now_);

  pass(30s);
  pass(30s);

  fail(0);
  EXPECT_EQ(ejected_for(0), Duration(2s));
}

TEST_F(EjectedBackend, WithProbesGetsNoClientsRequestAsATrial) {
  given(3);
  shared(0).state.set_probed(true);
  fail(0);

  pass(10s);
  EXPECT_TRUE(is_ejected(0));
  backend(0).probe_succeeded(now_);

  EXPECT_FALSE(is_ejected(0));
  ASSERT_TRUE(backend(0).try_acquire(now_));
  EXPECT_TRUE(shared(0).state.avoided(now_)) << "a request is its trial";
}

TEST_F(EjectedBackend, ReturnsOnTrialAfterAProbe) {
  given(3);
  shared(0).state.set_probed(true);
  fail(0);
  backend(0).probe_succeeded(now_ + 1s);
  EXPECT_TRUE(is_ejected(0)) << "too early";
  backend(0).probe_succeeded(now_ + 2s);
  ASSERT_FALSE(is_ejected(0));

  backend(0).record_outcome(failed, now_ + 3s);

  EXPECT_TRUE(is_ejected(0));
  EXPECT_EQ(ejected_for(0), Duration(4s));
}

TEST_F(EjectedBackend, WhoseProbesNeverPassGetsATrialInTheEnd) {
  given(3);
  shared(0).state.set_probed(true);
  fail(0);

  pass(29s);
  EXPECT_TRUE(is_ejected(0));
  pass(2s);

  EXPECT_FALSE(is_ejected(0));
}

TEST_F(EjectedBackend, ReturnsWhenThePoolPanics) {
  given(4);
  fail(0);
  fail(1);
  ASSERT_EQ(ejected(), 2u);
  pass(100ms);
  ASSERT_FALSE(state_->panics());

  shared(2).state.take_out(OutOfRotation::unhealthy);
  pass(100ms);

  EXPECT_TRUE(state_->panics());
  EXPECT_EQ(ejected(), 0u);
  fail(0);
  EXPECT_EQ(ejected(), 0u) << "while the pool panics none is ejected";

  backend(2).put_back(OutOfRotation::unhealthy);
  pass(100ms);
  EXPECT_FALSE(state_->panics());
  backend(0).record_outcome(failed, now_);
  EXPECT_TRUE(is_ejected(0));
}

TEST_F(EjectedBackend, IsNotAServerThatCameUpAgain) {
  given(3);
  fail(0);
  shared(0).state.take_out(OutOfRotation::unhealthy);

  backend(0).put_back(OutOfRotation::unhealthy);

  EXPECT_TRUE(shared(0).state.in_rotation());
  EXPECT_EQ(shared(0).state.failures_in_a_row(), 0u);
  EXPECT_TRUE(shared(0).state.serving());
}

TEST_F(EjectedBackend, IsNotAServerThatAcceptsConnectionsAgain) {
  given(3);
  fail(0);
  backend(0).state().connect_failed(now_, Fault::connect_failed);

  backend(0).connected();

  EXPECT_TRUE(shared(0).state.in_rotation());
  EXPECT_TRUE(shared(0).state.serving());
}

TEST_F(EjectedBackend, ReturnsWhenItsFailuresAreForgottenMeanwhile) {
  given(3);
  fail(0);

  shared(0).state.forget();
  pass(100ms);

  EXPECT_TRUE(shared(0).state.in_rotation());
}

TEST_F(EjectedBackend, StaysEjectedAfterAReload) {
  given(3);
  fail(0);
  PoolSpec spec = some_pool(3, 7);

  state_ = PoolState::build(spec, state_.get());
  state_->activate();
  pass(100ms);

  EXPECT_TRUE(is_ejected(0));
  spec.config.outlier.max_ejected = 0;
  state_ = PoolState::build(spec, state_.get());
  state_->activate();
  pass(100ms);
  EXPECT_FALSE(is_ejected(0));
}

}  // namespace
}  // namespace evenkeel::testing
