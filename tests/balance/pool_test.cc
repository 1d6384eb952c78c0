#include "evenkeel/balance/pool.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "balance/some_backends.h"
#include "evenkeel/base/loop.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr Duration patience = 10s;  // for what must happen; a test that needs it has failed

class Placing : public ::testing::Test {
 protected:
  // A pool of backends with `limit` places each, and this worker's entrance to it.
  void given(PoolSpec spec) {
    state_ = PoolState::build(std::move(spec));
    pool_.emplace(state_, loop_, 1);
  }
  Task<Result<Lease>> place(Hint hint = {}, Instant deadline = never) {
    return pool_->place(hint, deadline);
  }
  Lease place_now(const Hint& hint = {}) {
    auto task = pool_->place(hint);
    EXPECT_TRUE(task.ready());
    auto lease = task.take();
    EXPECT_TRUE(lease.ok());
    return std::move(*lease);
  }
  bool becomes_ready(const Task<Result<Lease>>& task) {
    return loop_.run_until([&] { return task.ready(); }, Clock::now() + patience);
  }
  // Long enough for whatever was posted to arrive.
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

TEST_F(Placing, AnswersAtOnceWhileThereIsRoom) {
  given(some_pool(2, 1));

  Lease one = place_now();
  Lease other = place_now();

  EXPECT_NE(one.backend(), other.backend());
  EXPECT_EQ(state_->in_flight(), 2u);
  EXPECT_EQ(state_->saturation_ratio(), 1.0);
  EXPECT_EQ(one.waited(), Duration{});
}

TEST_F(Placing, HasNobodyForARequestThatHasTriedAll) {
  given(some_pool(2, 0));
  Hint hint;
  hint.tried.add(backend(0).get());
  hint.tried.add(backend(1).get());

  auto result = place(hint).take();

  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().fault, Fault::no_backend);
  EXPECT_EQ(result.error().side, Side::us);
}

TEST_F(Placing, HasNobodyInAnEmptyPool) {
  given(some_pool(0, 0));

  auto result = place().take();

  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().fault, Fault::no_backend);
}

TEST_F(Placing, WaitsForAPlaceWhenAllAreTaken) {
  given(some_pool(1, 1));
  Lease first = place_now();
  auto waiting = place();
  ASSERT_FALSE(waiting.ready());
  ASSERT_EQ(state_->queue().waiting, 1u);

  first.give_back();

  ASSERT_TRUE(becomes_ready(waiting));
  auto lease = waiting.take();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->backend(), backend(0));
  EXPECT_GT(lease->waited(), Duration{});
  EXPECT_EQ(state_->queue().waiting, 0u);
  EXPECT_EQ(state_->queue().waited_total, 1u);
  EXPECT_EQ(state_->queue().waited_sum, lease->waited());
}

TEST_F(Placing, ServesTheLineInItsOrder) {
  given(some_pool(1, 1));
  Lease taken = place_now();
  std::vector<Task<Result<Lease>>> line;
  for (int i = 0; i < 5; ++i) line.push_back(place());

  for (std::size_t next = 0; next < line.size(); ++next) {
    taken.give_back();
    ASSERT_TRUE(becomes_ready(line[next]));
    for (std::size_t later = next + 1; later < line.size(); ++later) {
      EXPECT_FALSE(line[later].ready());
    }
    taken = std::move(*line[next].take());
  }
}

TEST_F(Placing, LetsNobodyOvertakeTheLine) {
  given(some_pool(1, 1));
  Lease taken = place_now();
  auto first = place();

  taken.give_back();  // granted to the first, who does not know yet
  auto second = place();

  EXPECT_FALSE(second.ready());
  ASSERT_TRUE(becomes_ready(first));
  EXPECT_FALSE(second.ready());
  first.take()->give_back();
  ASSERT_TRUE(becomes_ready(second));
  EXPECT_TRUE(second.take());
}

TEST_F(Placing, RefusesWhenTheLineIsFull) {
  given(some_pool(1, 1, {.size = 2}));
  Lease taken = place_now();
  auto first = place();
  auto second = place();

  auto third = place();

  ASSERT_TRUE(third.ready());
  auto result = third.take();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().fault, Fault::queue_full);
  EXPECT_EQ(result.error().side, Side::us);
  EXPECT_EQ(state_->queue().full_total, 1u);
  EXPECT_EQ(state_->queue().waiting, 2u);
}

TEST_F(Placing, RefusesAtOnceWithoutALine) {
  given(some_pool(1, 1, {.size = 0}));
  Lease taken = place_now();

  auto result = place().take();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().fault, Fault::queue_full);

  taken.give_back();
  EXPECT_TRUE(place_now());
}

TEST_F(Placing, GivesUpAfterTheQueuesTimeout) {
  given(some_pool(1, 1, {.timeout = 1ms}));
  Lease taken = place_now();
  auto waiting = place();

  ASSERT_TRUE(becomes_ready(waiting));

  auto result = waiting.take();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().fault, Fault::queue_timeout);
  EXPECT_EQ(result.error().side, Side::us);
  EXPECT_EQ(state_->queue().timeout_total, 1u);
  EXPECT_EQ(state_->queue().waiting, 0u);
  taken.give_back();
  EXPECT_EQ(state_->in_flight(), 0u);
}

TEST_F(Placing, GivesUpAtTheRequestsOwnDeadline) {
  given(some_pool(1, 1));
  Lease taken = place_now();
  auto waiting = place({}, Clock::now() + 1ms);

  ASSERT_TRUE(becomes_ready(waiting));

  EXPECT_EQ(waiting.take().error().fault, Fault::queue_timeout);
}

TEST_F(Placing, AnAbandonedWaitLeavesTheLine) {
  given(some_pool(1, 1));
  Lease taken = place_now();
  auto first = place();
  auto second = place();

  first.drop();
  taken.give_back();

  ASSERT_TRUE(becomes_ready(second));
  EXPECT_TRUE(second.take());
  EXPECT_EQ(state_->queue().abandoned_total, 1u);
  EXPECT_EQ(state_->in_flight(), 0u);
}

TEST_F(Placing, APlaceGrantedToOneWhoHasJustGoneGoesToTheNext) {
  given(some_pool(1, 1));
  Lease taken = place_now();
  auto first = place();
  auto second = place();

  taken.give_back();  // granted to the first; the message is on its way
  first.drop();

  ASSERT_TRUE(becomes_ready(second));
  EXPECT_TRUE(second.take());
  let_the_loop_turn();
  EXPECT_EQ(state_->in_flight(), 0u);
}

TEST_F(Placing, APlaceGrantedToTheLastWhoHasJustGoneIsFreeAgain) {
  given(some_pool(1, 1));
  Lease taken = place_now();
  auto only = place();

  taken.give_back();
  only.drop();

  EXPECT_EQ(state_->in_flight(), 0u);
  EXPECT_TRUE(place_now());
}

TEST_F(Placing, AWaitEndsInAPlaceEvenIfItsDeadlineHasPassedMeanwhile) {
  given(some_pool(1, 1, {.timeout = 1ms}));
  Lease taken = place_now();
  auto waiting = place();
  while (Clock::now() < loop_.now() + 5ms) {
  }

  taken.give_back();

  ASSERT_TRUE(becomes_ready(waiting));
  EXPECT_TRUE(waiting.take());
}

TEST_F(Placing, DroppingTheLoopDropsThoseWhoWait) {
  given(some_pool(1, 1));
  Lease taken = place_now();
  {
    Loop other;
    Pool entrance(state_, other, 2);
    struct {
      static Task<void> hold(Pool& pool) {
        auto lease = co_await pool.place({});
        if (!lease) co_return;
      }
    } request;
    other.spawn(request.hold(entrance));
    other.spawn(request.hold(entrance));
    ASSERT_EQ(state_->queue().waiting, 2u);
    taken.give_back();
  }

  EXPECT_EQ(state_->queue().waiting, 0u);
  EXPECT_EQ(state_->in_flight(), 0u);
}

TEST_F(Placing, OneWhoHasTriedABackendIsPassedOverForTheNextInLine) {
  given(some_pool(2, 1));
  Lease on_first = place_now();
  Lease on_second = place_now();
  Hint hint;
  hint.tried.add(on_first.backend().get());
  auto choosy = place(hint);
  auto any = place();

  const BackendPtr freed = on_first.backend();
  on_first.give_back();

  ASSERT_TRUE(becomes_ready(any));
  EXPECT_EQ(any.take()->backend(), freed);
  EXPECT_FALSE(choosy.ready());
  const BackendPtr wanted = on_second.backend();
  on_second.give_back();
  ASSERT_TRUE(becomes_ready(choosy));
  EXPECT_EQ(choosy.take()->backend(), wanted);
}

TEST_F(Placing, ANewcomerTakesThePlaceThatTheLineMayNotUse) {
  given(some_pool(2, 1));
  Lease on_first = place_now();
  Lease on_second = place_now();
  Hint hint;
  hint.tried.add(on_first.backend().get());
  auto choosy = place(hint);
  on_first.give_back();  // of no use to the one in line

  auto newcomer = place();

  ASSERT_TRUE(newcomer.ready());
  EXPECT_TRUE(newcomer.take());
  EXPECT_FALSE(choosy.ready());
}

TEST_F(Placing, WaitsForOneThatStandsRatherThanUseOneInBackOff) {
  given(some_pool(2, 1));
  backend(0)->connect_failed(Clock::now());
  Lease taken = place_now();
  ASSERT_EQ(taken.backend(), backend(1));

  auto waiting = place();
  ASSERT_FALSE(waiting.ready());
  taken.give_back();

  ASSERT_TRUE(becomes_ready(waiting));
  EXPECT_EQ(waiting.take()->backend(), backend(1));
}

TEST_F(Placing, OneThatRecoversServesTheLineAtOnce) {
  given(some_pool(2, 2));
  backend(0)->connect_failed(Clock::now());
  Lease one = place_now();
  Lease other = place_now();
  auto first = place();
  auto second = place();
  ASSERT_FALSE(first.ready() || second.ready());

  backend(0)->connected();

  ASSERT_TRUE(becomes_ready(first) && becomes_ready(second));
  EXPECT_EQ(first.take()->backend(), backend(0));
  EXPECT_EQ(second.take()->backend(), backend(0));
}

TEST_F(Placing, TheEndOfABackOffIsSeenByThoseWhoWait) {
  given(some_pool(2, 1));
  backend(0)->connect_failed(Clock::now() - Load::first_backoff + 100ms);
  Lease taken = place_now();
  auto waiting = place();
  ASSERT_FALSE(waiting.ready());

  ASSERT_TRUE(becomes_ready(waiting));

  EXPECT_EQ(waiting.take()->backend(), backend(0));
}

TEST_F(Placing, APlaceReturnedOnAnotherThreadWakesThisLoop) {
  given(some_pool(1, 1));
  Lease taken = place_now();
  auto waiting = place();

  std::thread other([lease = std::move(taken)]() mutable { lease.give_back(); });

  EXPECT_TRUE(becomes_ready(waiting));
  other.join();
  EXPECT_TRUE(waiting.take());
}

TEST_F(Placing, AReloadKeepsCountersAndServesBothLinesFromTheSamePlaces) {
  given(some_pool(2, 1));
  const std::uint64_t picks_before = backend(0)->load().picks_total();
  Lease one = place_now();
  Lease other = place_now();
  auto old_plan = place();

  PoolSpec spec = some_pool(2, 1);
  spec.backends[0].weight = 3;  // changed: another object, the same counters
  auto renewed = PoolState::build(spec, state_.get());
  renewed->take_over();
  Pool entrance(renewed, loop_, 2);
  auto new_plan = entrance.place({});

  EXPECT_NE(renewed->backends()[0], backend(0));
  EXPECT_EQ(renewed->backends()[1], backend(1));
  EXPECT_EQ(renewed->in_flight(), 2u);
  EXPECT_EQ(renewed->backends()[0]->load().picks_total(), picks_before + 1);
  one.give_back();
  ASSERT_TRUE(becomes_ready(old_plan));
  EXPECT_FALSE(new_plan.ready());
  other.give_back();
  EXPECT_TRUE(becomes_ready(new_plan));
  EXPECT_TRUE(new_plan.take());
}

TEST_F(Placing, AReloadThatAddsABackendServesThoseWhoComeAfterItAtOnce) {
  given(some_pool(1, 1));
  Lease taken = place_now();
  auto old_plan = place();

  auto renewed = PoolState::build(some_pool(2, 1), state_.get());
  renewed->take_over();
  Pool entrance(renewed, loop_, 2);
  auto new_plan = entrance.place({});

  ASSERT_TRUE(new_plan.ready());
  EXPECT_EQ(new_plan.take()->backend(), renewed->backends()[1]);
  EXPECT_FALSE(old_plan.ready());
}

TEST_F(Placing, AReloadThatRaisesTheLimitServesThoseWhoWaitFirst) {
  given(some_pool(1, 1));
  Lease taken = place_now();
  auto old_plan = place();

  auto renewed = PoolState::build(some_pool(1, 2), state_.get());
  renewed->take_over();
  Pool entrance(renewed, loop_, 2);
  auto new_plan = entrance.place({});

  EXPECT_TRUE(becomes_ready(old_plan));
  EXPECT_FALSE(new_plan.ready());
}

TEST_F(Placing, AReloadThatLowersTheLimitHoldsForThoseOfBeforeToo) {
  given(some_pool(1, 2));
  Lease one = place_now();
  Lease other = place_now();
  auto old_plan = place();

  auto renewed = PoolState::build(some_pool(1, 1), state_.get());
  renewed->take_over();
  one.give_back();

  EXPECT_FALSE(becomes_ready(old_plan));
  other.give_back();
  EXPECT_TRUE(becomes_ready(old_plan));
}

TEST_F(Placing, APoolWithoutLimitsIsNeverSaturated) {
  given(some_pool(2, 0));
  std::vector<Lease> leases;

  for (int i = 0; i < 1000; ++i) leases.push_back(place_now());

  EXPECT_EQ(state_->in_flight(), 1000u);
  EXPECT_EQ(state_->saturation_ratio(), 0.0);
  EXPECT_EQ(state_->queue().waiting, 0u);
}

TEST_F(Placing, CountsThoseThatStand) {
  given(some_pool(3, 0));

  backend(1)->connect_failed(noon);

  EXPECT_EQ(state_->standing(noon), 2u);
  EXPECT_EQ(state_->standing(noon + 1s), 3u);
}

}  // namespace
}  // namespace evenkeel::testing
