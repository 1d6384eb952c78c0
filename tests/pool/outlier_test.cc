// Which failures eject a backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "evenkeel/base/rng.h"
#include "evenkeel/pool/pool.h"
#include "pool/outlier_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

class Outlier : public OutlierPool {};

TEST_F(Outlier, IsNoBackendThatWasRemoved) {
  given(3);
  const std::shared_ptr<PoolState> before = state_;
  state_ = PoolState::build(some_pool(2, 0), before.get());
  state_->activate();
  state_->tick(now_);
  const Backend& removed = *before->backends()[2];

  for (int i = 0; i < 10; ++i) removed.record_outcome(failed, now_);

  EXPECT_NE(removed.state().why(), Avoidance::ejected);
}

TEST_F(Outlier, IsEjectedAtOnceAfterFiveFailuresInARow) {
  given(3);

  fail(0, 4);
  EXPECT_FALSE(is_ejected(0));
  fail(0, 1);

  EXPECT_TRUE(is_ejected(0));
  EXPECT_EQ(describe_ejection(shared(0).state), "5 failures in a row: 500");
  EXPECT_EQ(shared(0).state.ejections_total(EjectionReason::consecutive), 1u);
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
  EXPECT_EQ(describe_ejection(shared(0).state), "3 failures in a row: 500");
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
  }
  ASSERT_TRUE(is_ejected(0));

  pass(2s);
  ASSERT_TRUE(backend(0).try_acquire(now_));
  backend(0).record_outcome(listed, now_);
  EXPECT_EQ(shared(0).state.why(), Avoidance::ejected);
  EXPECT_FALSE(shared(0).state.avoided(now_)) << "the next request is another trial";
  ASSERT_TRUE(backend(0).try_acquire(now_));
  backend(0).record_outcome(succeeded, now_);

  EXPECT_NE(shared(0).state.why(), Avoidance::ejected);
  EXPECT_TRUE(shared(0).state.serving());
}

TEST_F(Outlier, IsNotABackendThatFailedLongAgo) {
  given(3);
  fail(0, 4);

  backend(0).record_outcome({.safe_method = true}, now_ + 11s);

  EXPECT_EQ(shared(0).state.failures_in_a_row(), 0u);
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
  shared(1).state.take_out(OutOfRotation::unhealthy);
  shared(2).state.take_out(OutOfRotation::unhealthy);

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
  EXPECT_EQ(shared(2).state.ejections_total(EjectionReason::success_rate), 1u);
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
  std::atomic<std::uint64_t> attempts = 0;
  std::vector<std::thread> workers;
  for (std::uint64_t worker = 0; worker < 3; ++worker) {
    workers.emplace_back([&, worker] {
      Rng rng(worker + 1);
      while (!ends) {
        const Instant at{Duration(time.load())};
        const Backend& one = backend(rng.below(4));
        if (!one.state().in_rotation() || !one.try_acquire(at)) continue;
        const bool fails = one.id() != backend(3).id() && rng.below(8) != 0;
        one.record_outcome(fails ? failed : succeeded, at);
        one.release();
        ++attempts;
      }
    });
  }

  std::size_t most = 0;
  for (int ticks = 0; ticks < 2000; ++ticks) {
    pass(100ms);
    time = now_.time_since_epoch().count();
    if (ticks % 50 == 0) {  // the workers get a processor, however busy the machine is
      for (const std::uint64_t before = attempts; attempts < before + 100;) {
        std::this_thread::yield();
      }
    }
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

}  // namespace
}  // namespace evenkeel::testing
