#include "evenkeel/pool/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "evenkeel/base/loop.h"
#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr Duration patience = 10s;  // reached only by a failing test

class PoolAcquire : public ::testing::Test {
 protected:
  // Builds the pool and one worker's view of it.
  void given(PoolSpec spec) {
    state_ = PoolState::build(std::move(spec));
    pool_.emplace(state_, loop_, 1);
  }
  Task<Result<Lease>> acquire(Hint hint = {}, Instant deadline = never) {
    return pool_->acquire(hint, deadline);
  }
  Lease acquire_now(const Hint& hint = {}) {
    auto task = pool_->acquire(hint);
    EXPECT_TRUE(task.ready());
    auto lease = task.take();
    EXPECT_TRUE(lease.ok());
    return std::move(*lease);
  }
  bool becomes_ready(const Task<Result<Lease>>& task) {
    return loop_.run_until([&] { return task.ready(); }, Clock::now() + patience);
  }
  // Handles everything that has been posted.
  void let_the_loop_turn() {
    bool turned = false;
    loop_.post([&] { turned = true; });
    loop_.run_until([&] { return turned; }, Clock::now() + patience);
    loop_.spawn(turn_twice(loop_));
    loop_.run_until([&] { return loop_.spawned() == 0; }, Clock::now() + patience);
  }
  static Task<void> turn_twice(Loop& loop) {
    co_await loop.yield();
    co_await loop.yield();
  }
  const BackendPtr& backend(std::size_t index) { return state_->backends()[index]; }

  Loop loop_;
  std::shared_ptr<PoolState> state_;
  std::optional<Pool> pool_;
};

TEST_F(PoolAcquire, GrantsASlotAtOnceWhileOneIsFree) {
  given(some_pool(2, 1));

  Lease one = acquire_now();
  Lease other = acquire_now();

  EXPECT_NE(one.backend(), other.backend());
  EXPECT_EQ(state_->in_flight(), 2u);
  EXPECT_EQ(state_->saturation_ratio(), 1.0);
  EXPECT_EQ(one.waited(), Duration{});
}

TEST_F(PoolAcquire, FailsWhenAllBackendsAreExcluded) {
  given(some_pool(2, 0));
  Hint hint;
  hint.excluded.add(backend(0).get());
  hint.excluded.add(backend(1).get());

  auto result = acquire(hint).take();

  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().fault, Fault::no_backend);
  EXPECT_EQ(result.error().side, Side::proxy);
}

TEST_F(PoolAcquire, SaysWhyNoBackendIsUp) {
  given(some_pool(2, 0));
  const auto why = [&] { return acquire().take().error().detail; };

  backend(0)->state().take_out(OutOfRotation::draining);
  backend(1)->state().take_out(OutOfRotation::unhealthy);
  EXPECT_THAT(why(), ::testing::HasSubstr(": no backend is up: 1 drained, 1 down"));
  backend(1)->state().take_out(OutOfRotation::draining);
  EXPECT_THAT(why(), ::testing::HasSubstr(": all backends are drained"));
  for (const auto& [reason, word] : {std::pair{OutOfRotation::starting, "starting"},
                                     std::pair{OutOfRotation::sleeping, "asleep"},
                                     std::pair{OutOfRotation::unresolved, "without an address"}}) {
    for (std::size_t i : {0u, 1u}) {
      backend(i)->state().clear(OutOfRotation::draining);
      backend(i)->state().clear(OutOfRotation::unhealthy);
      backend(i)->state().take_out(reason);
    }
    EXPECT_THAT(why(), ::testing::HasSubstr(std::string(": all backends are ") + word));
    for (std::size_t i : {0u, 1u}) backend(i)->state().clear(reason);
  }
}

TEST_F(PoolAcquire, FailsInAnEmptyPool) {
  given(some_pool(0, 0));

  auto result = acquire().take();

  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().fault, Fault::no_backend);
}

PoolSpec pool_from_zero(std::size_t backends, QueueConfig queue = {}) {
  PoolSpec spec = some_pool(backends, 0, queue);
  spec.config.scaling = ScalingConfig{.min = 0};
  return spec;
}

TEST_F(PoolAcquire, WaitsForTheFirstServerOfAPoolThatStartsFromZero) {
  given(pool_from_zero(1));
  backend(0)->state().take_out(OutOfRotation::unhealthy);

  auto waiting = acquire();
  ASSERT_FALSE(waiting.ready());
  EXPECT_EQ(state_->queue().waiting, 1u);
  backend(0)->put_back(OutOfRotation::unhealthy);

  ASSERT_TRUE(becomes_ready(waiting));
  EXPECT_TRUE(waiting.take().ok());
}

TEST_F(PoolAcquire, ARequestOfAnEmptyPoolGoesToTheServerThatIsFound) {
  given(pool_from_zero(0));
  auto waiting = acquire();
  ASSERT_FALSE(waiting.ready());

  const auto found = PoolState::build(pool_from_zero(1), state_.get());
  Pool next(found, loop_, 2);
  found->backends()[0]->state().take_out(OutOfRotation::starting);
  found->activate();
  pool_->hand_queue_to(&next);
  let_the_loop_turn();
  ASSERT_FALSE(waiting.ready());
  found->backends()[0]->put_back(OutOfRotation::starting);

  ASSERT_TRUE(becomes_ready(waiting));
  EXPECT_EQ(waiting.take()->backend(), found->backends()[0]);
}

TEST_F(PoolAcquire, TheWaitForTheFirstServerEndsWithTheQueuesTimeout) {
  given(pool_from_zero(1, {.timeout = 1ms}));
  backend(0)->state().take_out(OutOfRotation::unhealthy);
  auto waiting = acquire();

  ASSERT_TRUE(becomes_ready(waiting));

  EXPECT_EQ(waiting.take().error().fault, Fault::queue_timeout);
}

TEST_F(PoolAcquire, DoesNotWaitForAServerThatHasFailedItOrIsDrained) {
  given(pool_from_zero(1));
  Hint hint;
  hint.excluded.add(backend(0).get());
  EXPECT_EQ(acquire(hint).take().error().fault, Fault::no_backend);

  backend(0)->state().take_out(OutOfRotation::draining);
  EXPECT_EQ(acquire().take().error().fault, Fault::no_backend);
}

TEST_F(PoolAcquire, QueuesWhenAllBackendsAreFull) {
  given(some_pool(1, 1));
  Lease first = acquire_now();
  auto waiting = acquire();
  ASSERT_FALSE(waiting.ready());
  ASSERT_EQ(state_->queue().waiting, 1u);

  first.release();

  ASSERT_TRUE(becomes_ready(waiting));
  auto lease = waiting.take();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->backend(), backend(0));
  EXPECT_GT(lease->waited(), Duration{});
  EXPECT_EQ(state_->queue().waiting, 0u);
}

TEST_F(PoolAcquire, ServesTheQueueInOrder) {
  given(some_pool(1, 1));
  Lease taken = acquire_now();
  std::vector<Task<Result<Lease>>> line;
  for (int i = 0; i < 5; ++i) line.push_back(acquire());

  for (std::size_t next = 0; next < line.size(); ++next) {
    taken.release();
    ASSERT_TRUE(becomes_ready(line[next]));
    for (std::size_t later = next + 1; later < line.size(); ++later) {
      EXPECT_FALSE(line[later].ready());
    }
    taken = std::move(*line[next].take());
  }
}

TEST_F(PoolAcquire, LetsNoRequestOvertakeTheQueue) {
  given(some_pool(1, 1));
  Lease taken = acquire_now();
  auto first = acquire();

  taken.release();  // granted to the first request, which has not resumed yet
  auto second = acquire();

  EXPECT_FALSE(second.ready());
  ASSERT_TRUE(becomes_ready(first));
  EXPECT_FALSE(second.ready());
  first.take()->release();
  ASSERT_TRUE(becomes_ready(second));
  EXPECT_TRUE(second.take());
}

TEST_F(PoolAcquire, FailsWhenTheQueueIsFull) {
  given(some_pool(1, 1, {.size = 2}));
  Lease taken = acquire_now();
  auto first = acquire();
  auto second = acquire();

  auto third = acquire();

  ASSERT_TRUE(third.ready());
  auto result = third.take();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().fault, Fault::queue_full);
  EXPECT_EQ(result.error().side, Side::proxy);
  EXPECT_EQ(state_->queue().waiting, 2u);
}

TEST_F(PoolAcquire, FailsAtOnceWithoutAQueue) {
  given(some_pool(1, 1, {.size = 0}));
  Lease taken = acquire_now();

  auto result = acquire().take();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().fault, Fault::queue_full);

  taken.release();
  EXPECT_TRUE(acquire_now());
}

TEST_F(PoolAcquire, GivesUpAfterTheQueuesTimeout) {
  given(some_pool(1, 1, {.timeout = 1ms}));
  Lease taken = acquire_now();
  auto waiting = acquire();

  ASSERT_TRUE(becomes_ready(waiting));

  auto result = waiting.take();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().fault, Fault::queue_timeout);
  EXPECT_EQ(result.error().side, Side::proxy);
  EXPECT_EQ(state_->queue().waiting, 0u);
  taken.release();
  EXPECT_EQ(state_->in_flight(), 0u);
}

TEST_F(PoolAcquire, ARefusalOfAPoolThatIsDownTellsWhenItMayServeAgain) {
  PoolSpec spec = some_pool(1, 1, {.timeout = 1ms});
  spec.config.health = {.interval = 1s, .rise = 4};
  given(std::move(spec));
  const Lease taken = acquire_now();
  auto waiting = acquire();
  backend(0)->state().connect_failed(Clock::now() + 1s);

  ASSERT_TRUE(becomes_ready(waiting));

  const Error error = std::move(waiting.take().error());
  EXPECT_EQ(error.fault, Fault::queue_timeout);
  EXPECT_EQ(error.retry_after_ms, 4000u);
}

TEST_F(PoolAcquire, GivesUpAtTheRequestsOwnDeadline) {
  given(some_pool(1, 1));
  Lease taken = acquire_now();
  auto waiting = acquire({}, Clock::now() + 1ms);

  ASSERT_TRUE(becomes_ready(waiting));

  EXPECT_EQ(waiting.take().error().fault, Fault::queue_timeout);
}

TEST_F(PoolAcquire, AnAbandonedWaitLeavesTheQueue) {
  given(some_pool(1, 1));
  Lease taken = acquire_now();
  auto first = acquire();
  auto second = acquire();

  first.drop();
  taken.release();

  ASSERT_TRUE(becomes_ready(second));
  EXPECT_TRUE(second.take());
  EXPECT_EQ(state_->in_flight(), 0u);
}

TEST_F(PoolAcquire, AGrantToADroppedWaiterGoesToTheNext) {
  given(some_pool(1, 1));
  Lease taken = acquire_now();
  auto first = acquire();
  auto second = acquire();

  taken.release();  // granted to the first; the message is on its way
  first.drop();

  ASSERT_TRUE(becomes_ready(second));
  EXPECT_TRUE(second.take());
  let_the_loop_turn();
  EXPECT_EQ(state_->in_flight(), 0u);
}

TEST_F(PoolAcquire, AGrantToTheLastDroppedWaiterIsReleased) {
  given(some_pool(1, 1));
  Lease taken = acquire_now();
  auto only = acquire();

  taken.release();
  only.drop();

  EXPECT_EQ(state_->in_flight(), 0u);
  EXPECT_TRUE(acquire_now());
}

TEST_F(PoolAcquire, AGrantIsUsedEvenIfTheDeadlineHasPassed) {
  given(some_pool(1, 1, {.timeout = 1ms}));
  Lease taken = acquire_now();
  auto waiting = acquire();
  while (Clock::now() < loop_.now() + 5ms) {
  }

  taken.release();

  ASSERT_TRUE(becomes_ready(waiting));
  EXPECT_TRUE(waiting.take());
}

TEST_F(PoolAcquire, DroppingTheLoopDropsItsWaiters) {
  given(some_pool(1, 1));
  Lease taken = acquire_now();
  {
    Loop other;
    Pool entrance(state_, other, 2);
    struct {
      static Task<void> hold(Pool& pool) {
        auto lease = co_await pool.acquire({});
        if (!lease) co_return;
      }
    } request;
    other.spawn(request.hold(entrance));
    other.spawn(request.hold(entrance));
    ASSERT_EQ(state_->queue().waiting, 2u);
    taken.release();
  }

  EXPECT_EQ(state_->queue().waiting, 0u);
  EXPECT_EQ(state_->in_flight(), 0u);
}

TEST_F(PoolAcquire, AWaiterThatExcludesTheBackendIsSkipped) {
  given(some_pool(2, 1));
  Lease on_first = acquire_now();
  Lease on_second = acquire_now();
  Hint hint;
  hint.excluded.add(on_first.backend().get());
  auto choosy = acquire(hint);
  auto any = acquire();

  const BackendPtr freed = on_first.backend();
  on_first.release();

  ASSERT_TRUE(becomes_ready(any));
  EXPECT_EQ(any.take()->backend(), freed);
  EXPECT_FALSE(choosy.ready());
  const BackendPtr wanted = on_second.backend();
  on_second.release();
  ASSERT_TRUE(becomes_ready(choosy));
  EXPECT_EQ(choosy.take()->backend(), wanted);
}

TEST_F(PoolAcquire, ANewRequestTakesASlotThatNoWaiterMayUse) {
  given(some_pool(2, 1));
  Lease on_first = acquire_now();
  Lease on_second = acquire_now();
  Hint hint;
  hint.excluded.add(on_first.backend().get());
  auto choosy = acquire(hint);
  on_first.release();  // the queued request may not use it

  auto arriving = acquire();

  ASSERT_TRUE(arriving.ready());
  EXPECT_TRUE(arriving.take());
  EXPECT_FALSE(choosy.ready());
}

TEST_F(PoolAcquire, WaitsForAnAvailableBackendRatherThanUseOneInBackOff) {
  given(some_pool(2, 1));
  backend(0)->state().connect_failed(Clock::now());
  Lease taken = acquire_now();
  ASSERT_EQ(taken.backend(), backend(1));

  auto waiting = acquire();
  ASSERT_FALSE(waiting.ready());
  taken.release();

  ASSERT_TRUE(becomes_ready(waiting));
  EXPECT_EQ(waiting.take()->backend(), backend(1));
}

TEST_F(PoolAcquire, AnOverloadedBackendGetsNothingThatMayWaitForAnother) {
  given(some_pool(2, 1));
  backend(0)->record_outcome(classify(429, 30s), Clock::now());
  const Lease taken = acquire_now();
  ASSERT_EQ(taken.backend(), backend(1));

  EXPECT_FALSE(acquire().ready());
}

TEST_F(PoolAcquire, ARecoveredBackendServesTheQueueAtOnce) {
  given(some_pool(2, 2));
  backend(0)->state().connect_failed(Clock::now());
  Lease one = acquire_now();
  Lease other = acquire_now();
  auto first = acquire();
  auto second = acquire();
  ASSERT_FALSE(first.ready() || second.ready());

  backend(0)->connected();

  ASSERT_TRUE(becomes_ready(first) && becomes_ready(second));
  EXPECT_EQ(first.take()->backend(), backend(0));
  EXPECT_EQ(second.take()->backend(), backend(0));
}

TEST_F(PoolAcquire, WaitersSeeTheEndOfABackOff) {
  given(some_pool(2, 1));
  backend(0)->state().connect_failed(Clock::now() - 1s + 100ms);
  Lease taken = acquire_now();
  auto waiting = acquire();
  ASSERT_FALSE(waiting.ready());

  ASSERT_TRUE(becomes_ready(waiting));

  EXPECT_EQ(waiting.take()->backend(), backend(0));
}

TEST_F(PoolAcquire, AReleaseOnAnotherThreadWakesThisLoop) {
  given(some_pool(1, 1));
  Lease taken = acquire_now();
  auto waiting = acquire();

  std::thread other([lease = std::move(taken)]() mutable { lease.release(); });

  EXPECT_TRUE(becomes_ready(waiting));
  other.join();
  EXPECT_TRUE(waiting.take());
}

TEST_F(PoolAcquire, AReloadKeepsCountersAndServesOldAndNewWaiters) {
  given(some_pool(2, 1));
  const std::uint64_t picks_before = backend(0)->slots().picks_total();
  Lease one = acquire_now();
  Lease other = acquire_now();
  auto old_plan = acquire();

  PoolSpec spec = some_pool(2, 1);
  spec.backends[0].config.weight = 3;  // changed: another object, the same counters
  auto renewed = PoolState::build(spec, state_.get());
  renewed->activate();
  Pool entrance(renewed, loop_, 2);
  auto new_plan = entrance.acquire({});

  EXPECT_NE(renewed->backends()[0], backend(0));
  EXPECT_EQ(renewed->backends()[1], backend(1));
  EXPECT_EQ(renewed->in_flight(), 2u);
  EXPECT_EQ(renewed->backends()[0]->slots().picks_total(), picks_before + 1);
  one.release();
  ASSERT_TRUE(becomes_ready(old_plan));
  EXPECT_FALSE(new_plan.ready());
  other.release();
  EXPECT_TRUE(becomes_ready(new_plan));
  EXPECT_TRUE(new_plan.take());
}

TEST_F(PoolAcquire, AReloadThatAddsABackendServesNewRequestsAtOnce) {
  given(some_pool(1, 1));
  Lease taken = acquire_now();
  auto old_plan = acquire();

  auto renewed = PoolState::build(some_pool(2, 1), state_.get());
  renewed->activate();
  Pool entrance(renewed, loop_, 2);
  auto new_plan = entrance.acquire({});

  ASSERT_TRUE(new_plan.ready());
  EXPECT_EQ(new_plan.take()->backend(), renewed->backends()[1]);
  EXPECT_FALSE(old_plan.ready());
}

TEST_F(PoolAcquire, AReloadThatRaisesTheLimitServesWaitersFirst) {
  given(some_pool(1, 1));
  Lease taken = acquire_now();
  auto old_plan = acquire();

  auto renewed = PoolState::build(some_pool(1, 2), state_.get());
  renewed->activate();
  Pool entrance(renewed, loop_, 2);
  auto new_plan = entrance.acquire({});

  EXPECT_TRUE(becomes_ready(old_plan));
  EXPECT_FALSE(new_plan.ready());
}

TEST_F(PoolAcquire, AReloadThatLowersTheLimitAppliesToEarlierRequests) {
  given(some_pool(1, 2));
  Lease one = acquire_now();
  Lease other = acquire_now();
  auto old_plan = acquire();

  auto renewed = PoolState::build(some_pool(1, 1), state_.get());
  renewed->activate();
  one.release();

  EXPECT_FALSE(becomes_ready(old_plan));
  other.release();
  EXPECT_TRUE(becomes_ready(old_plan));
}

TEST_F(PoolAcquire, APoolWithoutLimitsIsNeverSaturated) {
  given(some_pool(2, 0));
  std::vector<Lease> leases;

  for (int i = 0; i < 1000; ++i) leases.push_back(acquire_now());

  EXPECT_EQ(state_->in_flight(), 1000u);
  EXPECT_EQ(state_->saturation_ratio(), 0.0);
  EXPECT_EQ(state_->queue().waiting, 0u);
}

TEST_F(PoolAcquire, CountsAvailableBackends) {
  given(some_pool(3, 0));

  backend(1)->state().connect_failed(noon);

  EXPECT_EQ(state_->available(noon), 2u);
  EXPECT_EQ(state_->available(noon + 1s), 3u);
}

}  // namespace
}  // namespace evenkeel::testing
