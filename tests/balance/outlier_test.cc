// Ejection: what a backend's failures do to it, and how it returns.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "balance/some_backends.h"
#include "evenkeel/balance/pool.h"
#include "evenkeel/base/rng.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr AttemptResult failed{.outcome = AttemptOutcome::failed, .status = 500};
constexpr AttemptResult succeeded{};

class Outlier : public ::testing::Test {
 protected:
  void given(std::size_t backends, OutlierSpec outlier = {}) {
    PoolSpec spec = some_pool(backends, 0);
    spec.outlier = outlier;
    state_ = PoolState::build(std::move(spec));
    state_->activate();
    state_->tick(now_);
  }
  const Backend& backend(std::size_t index) { return *state_->backends()[index]; }
  Load& load(std::size_t index) { return backend(index).load(); }
  bool is_ejected(std::size_t index) { return load(index).is_out(OutOfRotation::ejected); }
  void fail(std::size_t index, int times = 5) {
    for (int i = 0; i < times; ++i) backend(index).record_outcome(failed, now_);
  }
  void pass(Duration time) {
    now_ += time;
    state_->tick(now_);
  }
  std::size_t ejected() {
    std::size_t count = 0;
    for (std::size_t i = 0; i < state_->backends().size(); ++i) count += is_ejected(i);
    return count;
  }

  Instant now_ = noon;
  std::shared_ptr<PoolState> state_;
};

TEST_F(Outlier, IsNoBackendThatWasRemoved) {
  given(3);
  const std::shared_ptr<PoolState> before = state_;
  state_ = PoolState::build(some_pool(2, 0), before.get());
  state_->activate();
  state_->tick(now_);
  const Backend& removed = *before->backends()[2];

  for (int i = 0; i < 10; ++i) removed.record_outcome(failed, now_);

  EXPECT_EQ(removed.load().ejection(), Ejection::none);
}

TEST_F(Outlier, IsEjectedAtOnceAfterFiveFailuresInARow) {
  given(3);

  fail(0, 4);
  EXPECT_FALSE(is_ejected(0));
  fail(0, 1);

  EXPECT_TRUE(is_ejected(0));
  EXPECT_EQ(describe_ejection(load(0)), "5 failures in a row: 500");
  EXPECT_EQ(load(0).ejections_total(EjectionReason::consecutive), 1u);
}

TEST_F(Outlier, IsEjectedAfterThreeFailuresWhileNoOtherHasFailedLately) {
  given(3);
  for (std::size_t each = 1; each < 3; ++each) {
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(backend(each).try_acquire(now_));
  }

  fail(0, 2);
  EXPECT_FALSE(is_ejected(0));
  fail(0, 1);

  EXPECT_TRUE(is_ejected(0));
  EXPECT_EQ(describe_ejection(load(0)), "3 failures in a row: 500");
}

TEST_F(Outlier, IsNotEjectedAfterThreeFailuresIfAnotherHasFailedLately) {
  given(3);
  for (std::size_t each = 1; each < 3; ++each) {
    for (int i = 0; i < 9; ++i) ASSERT_TRUE(backend(each).try_acquire(now_));
  }
  fail(1, 1);
  backend(1).record_outcome(succeeded, now_);

  fail(0, 4);
  EXPECT_FALSE(is_ejected(0));
  fail(0, 1);

  EXPECT_TRUE(is_ejected(0));
}

TEST_F(Outlier, IsNotABackendThatSucceedsInBetween) {
  given(3);

  for (int i = 0; i < 10; ++i) {
    fail(0, 4);
    backend(0).record_outcome(succeeded, now_);
  }

  EXPECT_FALSE(is_ejected(0));
}

TEST_F(Outlier, IsABackendThatOnlyAnswersSafeMethods) {
  constexpr AttemptResult listed{.safe_method = true};
  given(3);
  for (int i = 0; i < 5; ++i) {
    fail(0, 1);
    backend(0).record_outcome(listed, now_);
    EXPECT_FALSE(load(0).in_backoff(now_)) << "the next request is its trial";
  }
  ASSERT_TRUE(is_ejected(0));

  pass(2s);
  ASSERT_TRUE(backend(0).try_acquire(now_));
  backend(0).record_outcome(listed, now_);
  EXPECT_EQ(load(0).ejection(), Ejection::half_open);
  ASSERT_TRUE(backend(0).try_acquire(now_));
  backend(0).record_outcome(succeeded, now_);

  EXPECT_EQ(load(0).ejection(), Ejection::none);
  EXPECT_FALSE(load(0).needs_trial());
}

TEST_F(Outlier, IsNotABackendThatFailedLongAgo) {
  given(3);
  fail(0, 4);

  backend(0).record_outcome({.safe_method = true}, now_ + 11s);

  EXPECT_EQ(load(0).failures_in_a_row(), 0u);
}

TEST_F(Outlier, IsNotABackendWhoseSafeMethodsFailAndSucceed) {
  given(3);
  for (int i = 0; i < 10; ++i) {
    for (int j = 0; j < 4; ++j) {
      backend(0).record_outcome(
          {.outcome = AttemptOutcome::failed, .status = 500, .safe_method = true}, now_);
    }
    backend(0).record_outcome({.safe_method = true}, now_);
  }

  EXPECT_FALSE(is_ejected(0));
}

TEST_F(Outlier, IsNotEjectedForWhatTheOthersDoToo) {
  given(3);

  for (int i = 0; i < 100; ++i) {
    for (std::size_t each = 0; each < 3; ++each) fail(each, 1);
    pass(100ms);
  }

  EXPECT_EQ(ejected(), 0u);
}

TEST_F(Outlier, IsNotEjectedForErrorsOfClientsOrOverload) {
  given(3);

  for (const int status : {400, 404, 422, 429, 503}) {
    for (int i = 0; i < 20; ++i) backend(0).record_outcome(classify(status), now_);
  }

  EXPECT_FALSE(is_ejected(0));
}

TEST_F(Outlier, LeavesHalfOfThePoolAndTheLastBackend) {
  struct Row {
    std::size_t backends;
    std::size_t at_most;
  };
  for (const auto& [backends, at_most] : {Row{1, 0}, {2, 1}, {3, 1}, {4, 2}, {5, 2}, {10, 5}}) {
    given(backends);
    for (std::size_t each = 0; each < backends; ++each) fail(each);
    EXPECT_LE(ejected(), at_most) << backends;
    EXPECT_EQ(ejected() > 0, at_most > 0) << backends;
  }
}

TEST_F(Outlier, IsNeverEjectedWhileTheOthersAreDown) {
  given(3);
  load(1).take_out(OutOfRotation::unhealthy);
  load(2).take_out(OutOfRotation::unhealthy);

  fail(0, 50);

  EXPECT_FALSE(is_ejected(0));
}

TEST_F(Outlier, IsNotEjectedIfTheFileSaysSo) {
  given(3, {.max_ejected = 0});
  fail(0, 50);
  EXPECT_FALSE(is_ejected(0));

  given(3, {.consecutive = 0});
  fail(0, 50);
  EXPECT_FALSE(is_ejected(0));
}

TEST_F(Outlier, GetsOneTrialAfterItsEjection) {
  given(3);
  fail(0);

  pass(1900ms);
  EXPECT_TRUE(is_ejected(0));
  pass(200ms);
  ASSERT_FALSE(is_ejected(0));
  EXPECT_FALSE(load(0).in_backoff(now_));

  ASSERT_TRUE(backend(0).try_acquire(now_));
  EXPECT_TRUE(load(0).in_backoff(now_ + 1900ms)) << "no other request before the outcome";
}

TEST_F(Outlier, ReturnsWhenItsTrialSucceeds) {
  given(3);
  fail(0);
  pass(2s);
  ASSERT_TRUE(backend(0).try_acquire(now_));

  backend(0).record_outcome(succeeded, now_ + 1s);

  EXPECT_EQ(load(0).ejection(), Ejection::none);
  EXPECT_FALSE(load(0).needs_trial());
}

TEST_F(Outlier, IsEjectedLongWhenItsTrialCostsAClientItsRequest) {
  given(3);
  fail(0);
  for (const Duration time : {2s, 30s, 300s, 300s}) {
    pass(time - 100ms);
    ASSERT_TRUE(is_ejected(0));
    pass(100ms);
    ASSERT_FALSE(is_ejected(0)) << seconds_of(time);
    ASSERT_TRUE(backend(0).try_acquire(now_));
    backend(0).record_outcome(failed, now_);
    ASSERT_TRUE(is_ejected(0));
  }
}

TEST_F(Outlier, GetsAnotherTrialIfTheFirstHasNoOutcome) {
  given(3);
  fail(0);
  pass(2s);
  ASSERT_TRUE(backend(0).try_acquire(now_));
  backend(0).record_outcome(failed, now_);
  pass(30s);
  ASSERT_TRUE(backend(0).try_acquire(now_));
  backend(0).record_outcome(failed, now_);
  pass(300s);
  ASSERT_TRUE(backend(0).try_acquire(now_));

  backend(0).record_outcome({.outcome = AttemptOutcome::abandoned}, now_);

  EXPECT_TRUE(load(0).in_backoff(now_ + 29s));
  EXPECT_FALSE(load(0).in_backoff(now_ + 30s));
}

TEST_F(Outlier, IsEjectedTwiceAsLongWhenItsTrialIsRetried) {
  given(3, {.trials_are_retried = true});
  fail(0);
  for (const Duration time : {2s, 4s, 8s, 16s, 30s, 30s}) {
    pass(time - 100ms);
    ASSERT_TRUE(is_ejected(0));
    pass(100ms);
    ASSERT_FALSE(is_ejected(0)) << seconds_of(time);
    ASSERT_TRUE(backend(0).try_acquire(now_));
    backend(0).record_outcome(failed, now_);
    ASSERT_TRUE(is_ejected(0));
  }
}

TEST_F(Outlier, IsForgivenInTime) {
  given(3);
  fail(0);
  pass(2s);
  backend(0).record_outcome(failed, now_);
  pass(30s);
  backend(0).record_outcome(succeeded, now_);

  pass(30s);
  pass(30s);

  fail(0);
  EXPECT_EQ(load(0).ejected_for(), Duration(2s));
}

TEST_F(Outlier, WithProbesGetsNoClientsRequestAsATrial) {
  given(3);
  load(0).set_probed(true);
  fail(0);

  pass(10s);
  EXPECT_TRUE(is_ejected(0));
  backend(0).probe_succeeded(now_);

  EXPECT_FALSE(is_ejected(0));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(backend(0).try_acquire(now_));
  EXPECT_FALSE(load(0).in_backoff(now_)) << "the probe was the trial";
}

TEST_F(Outlier, ReturnsOnTrialAfterAProbe) {
  given(3);
  load(0).set_probed(true);
  fail(0);
  backend(0).probe_succeeded(now_ + 1s);
  EXPECT_TRUE(is_ejected(0)) << "too early";
  backend(0).probe_succeeded(now_ + 2s);
  ASSERT_FALSE(is_ejected(0));

  backend(0).record_outcome(failed, now_ + 3s);

  EXPECT_TRUE(is_ejected(0));
  EXPECT_EQ(load(0).ejected_for(), Duration(4s));
}

TEST_F(Outlier, WhoseProbesNeverPassGetsATrialInTheEnd) {
  given(3);
  load(0).set_probed(true);
  fail(0);

  pass(29s);
  EXPECT_TRUE(is_ejected(0));
  pass(2s);

  EXPECT_FALSE(is_ejected(0));
}

TEST_F(Outlier, ReturnsWhenThePoolPanics) {
  given(4);
  fail(0);
  fail(1);
  ASSERT_EQ(ejected(), 2u);
  pass(100ms);
  ASSERT_FALSE(state_->panics());

  load(2).take_out(OutOfRotation::unhealthy);
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

TEST_F(Outlier, IsNotAServerThatCameUpAgain) {
  given(3);
  fail(0);
  load(0).take_out(OutOfRotation::unhealthy);

  backend(0).put_back(OutOfRotation::unhealthy);

  EXPECT_TRUE(load(0).in_rotation());
  EXPECT_EQ(load(0).failures_in_a_row(), 0u);
  EXPECT_FALSE(load(0).needs_trial());
}

TEST_F(Outlier, IsNotAServerThatAcceptsConnectionsAgain) {
  given(3);
  fail(0);
  backend(0).connect_failed(now_, Fault::connect_failed);

  backend(0).connected();

  EXPECT_TRUE(load(0).in_rotation());
  EXPECT_FALSE(load(0).needs_trial());
}

TEST_F(Outlier, ReturnsWhenItsFailuresAreForgottenMeanwhile) {
  given(3);
  fail(0);

  load(0).forget_failures();
  pass(100ms);

  EXPECT_TRUE(load(0).in_rotation());
}

TEST_F(Outlier, StaysEjectedAfterAReload) {
  given(3);
  fail(0);
  PoolSpec spec = some_pool(3, 7);

  state_ = PoolState::build(spec, state_.get());
  state_->activate();
  pass(100ms);

  EXPECT_TRUE(is_ejected(0));
  spec.outlier.max_ejected = 0;
  state_ = PoolState::build(spec, state_.get());
  state_->activate();
  pass(100ms);
  EXPECT_FALSE(is_ejected(0));
}

TEST_F(Outlier, IsABackendWithAMuchLowerSuccessRate) {
  given(6);
  pass(10s);  // a window begins
  for (std::size_t each = 0; each < 6; ++each) {
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(backend(each).try_acquire(now_));
      backend(each).record_outcome(each == 2 && i % 2 == 0 ? failed : succeeded, now_);
      backend(each).release();
    }
  }
  ASSERT_EQ(ejected(), 0u);

  pass(10s);

  EXPECT_EQ(ejected(), 1u);
  EXPECT_TRUE(is_ejected(2));
  EXPECT_EQ(load(2).ejections_total(EjectionReason::success_rate), 1u);
}

TEST_F(Outlier, IsNotABackendWithASlightlyLowerSuccessRate) {
  given(6);
  pass(10s);
  for (std::size_t each = 0; each < 6; ++each) {
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(backend(each).try_acquire(now_));
      backend(each).record_outcome(each == 2 && i % 50 == 0 ? failed : succeeded, now_);
      backend(each).release();
    }
  }

  pass(10s);

  EXPECT_EQ(ejected(), 0u);
}

TEST_F(Outlier, OfManyThreadsIsCountedAgainstTheShareOfThePool) {
  given(4);
  std::atomic<bool> ends = false;
  std::atomic<Duration::rep> time = now_.time_since_epoch().count();
  std::vector<std::thread> workers;
  for (std::uint64_t worker = 0; worker < 3; ++worker) {
    workers.emplace_back([&, worker] {
      Rng rng(worker + 1);
      while (!ends) {
        const Instant at{Duration(time.load())};
        const Backend& one = backend(rng.below(4));
        if (!one.load().in_rotation() || !one.try_acquire(at)) continue;
        const bool fails = one.id() != backend(3).id() && rng.below(8) != 0;
        one.record_outcome(fails ? failed : succeeded, at);
        one.release();
      }
    });
  }

  std::size_t most = 0;
  for (int ticks = 0; ticks < 2000; ++ticks) {
    pass(100ms);
    time = now_.time_since_epoch().count();
    if (ticks % 50 == 0) std::this_thread::yield();
    most = std::max(most, ejected());
    ASSERT_LE(ejected(), 2u);
  }
  ends = true;
  for (auto& worker : workers) worker.join();

  EXPECT_GT(most, 0u);
  for (int i = 0; i < 3; ++i) {
    pass(300s);
    for (std::size_t each = 0; each < 4; ++each) backend(each).record_outcome(succeeded, now_);
  }
  EXPECT_EQ(ejected(), 0u);
}

// ---- the fast failer, with every picker

/// Three servers behind one picker, 40 requests a second. Each answers after 400 ms; the first may
/// answer 500 after 2 ms.
class FastFailer : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    PoolSpec spec = some_pool(3, 0);
    spec.picker = GetParam();
    state_ = PoolState::build(std::move(spec));
    state_->activate();
    picker_ = state_->new_picker(7);
  }
  const Backend& backend(std::size_t index) { return *state_->backends()[index]; }

  void send(int requests) {
    for (int i = 0; i < requests; ++i) {
      if (i % 4 == 0) state_->tick(now_);
      finish();
      const BackendPtr* chosen = picker_->pick({.now = now_});
      ASSERT_NE(chosen, nullptr);
      ASSERT_TRUE((*chosen)->try_acquire(now_));
      const bool fails = is_bad_ && chosen->get() == &backend(0);
      running_.push_back({chosen->get(), now_ + (fails ? Duration(2ms) : Duration(400ms)), fails});
      now_ += 25ms;
    }
  }

  void finish() {
    for (auto each = running_.begin(); each != running_.end();) {
      if (each->ends > now_) {
        ++each;
        continue;
      }
      each->backend->release();
      Load& load = each->backend->load();
      if (each->fails) {
        ++failures_;
        load.record_failure(2ms, each->ends);
      } else {
        load.record_first_byte(400ms, each->ends);
      }
      each->backend->record_outcome(each->fails ? failed : succeeded, each->ends);
      each = running_.erase(each);
    }
  }

  struct Running {
    const Backend* backend;
    Instant ends;
    bool fails;
  };
  std::shared_ptr<PoolState> state_;
  std::unique_ptr<Picker> picker_;
  std::deque<Running> running_;
  Instant now_ = noon;
  bool is_bad_ = true;
  int failures_ = 0;
};

std::string name_of(const ::testing::TestParamInfo<std::string>& instance) {
  std::string name = instance.param;
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
}

std::vector<std::string> all_pickers() {
  std::vector<std::string> names;
  for (const auto name : known_pickers()) names.emplace_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(, FastFailer, ::testing::ValuesIn(all_pickers()), name_of);

TEST_P(FastFailer, LosesFiveRequestsAtMostWhereItIsProbed) {
  backend(0).load().set_probed(true);

  send(1100);
  EXPECT_TRUE(backend(0).load().is_out(OutOfRotation::ejected));
  EXPECT_LE(failures_, 5);
  const int before = failures_;
  is_bad_ = false;
  backend(0).probe_succeeded(now_);

  const std::uint64_t picks = backend(0).load().picks_total();
  send(400);
  EXPECT_EQ(failures_, before);
  EXPECT_GT(backend(0).load().picks_total(), picks + 60) << "it has its share again";
}

TEST_P(FastFailer, IsEjectedWithinTwoSeconds) {
  send(80);

  EXPECT_TRUE(backend(0).load().is_out(OutOfRotation::ejected));
}

TEST_P(FastFailer, WithoutProbesLosesFiveRequestsOfTenThousandAtMost) {
  send(10'000);

  // 250 s: three or so before its ejection, and a trial after 2 s and after 30 s.
  EXPECT_LE(failures_, 5);
}

TEST_P(FastFailer, WithoutProbesReturnsByATrialOnceItIsWell) {
  send(40);
  is_bad_ = false;
  const std::uint64_t picks = backend(0).load().picks_total();

  send(400);

  EXPECT_LE(failures_, 5);
  EXPECT_GT(backend(0).load().picks_total(), picks + 60);
}

}  // namespace
}  // namespace evenkeel::testing
