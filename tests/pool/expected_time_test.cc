// Pools whose scheduler places the requests: `picker: expected-time`.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/pool/pool.h"
#include "evenkeel/scheduler/request_cost.h"
#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr Duration patience = 10s;  // reached only by a failing test

PoolSpec scheduled_pool(std::size_t backends, std::uint32_t max_in_flight = 0) {
  PoolSpec spec = some_pool(backends, max_in_flight);
  spec.config.picker.name = "expected-time";
  spec.config.picker.index_bytes = 1 << 20;
  return spec;
}

class ScheduledAcquire : public ::testing::Test {
 protected:
  void given(PoolSpec spec) {
    state_ = PoolState::build(std::move(spec));
    state_->activate();
    pool_.emplace(state_, loop_, 1);
  }
  /// A prompt of so many tokens; one of 20 000 takes seconds.
  Task<Result<Lease>> acquire(std::uint32_t prompt_tokens, Hint hint = {}) {
    costs_.push_back(
        std::make_unique<RequestCost>(RequestCost{.arrival = {.prompt_tokens = prompt_tokens}}));
    hint.cost = costs_.back().get();
    return pool_->acquire(hint);
  }
  Lease acquire_now(std::uint32_t prompt_tokens, const Hint& hint = {}) {
    auto task = acquire(prompt_tokens, hint);
    EXPECT_TRUE(task.ready());
    auto lease = task.take();
    EXPECT_TRUE(lease.ok());
    return std::move(*lease);
  }
  bool becomes_ready(const Task<Result<Lease>>& task) {
    return loop_.run_until([&] { return task.ready(); }, Clock::now() + patience);
  }
  void wait_for(Duration time) {
    loop_.run_until([] { return false; }, Clock::now() + time);
  }
  const BackendPtr& backend(std::size_t index) { return state_->backends()[index]; }

  Loop loop_;
  std::shared_ptr<PoolState> state_;
  std::optional<Pool> pool_;
  std::vector<std::unique_ptr<RequestCost>> costs_;
};

TEST_F(ScheduledAcquire, StartsARequestAtOnceOnAnIdleBackend) {
  given(scheduled_pool(2));

  Lease one = acquire_now(20'000);
  Lease other = acquire_now(20'000);

  EXPECT_NE(one.backend(), other.backend());
  EXPECT_NE(one.placed(), nullptr);
  EXPECT_EQ(state_->in_flight(), 2u);
  EXPECT_EQ(state_->scheduled()->stats().placed_total, 2u);
}

TEST_F(ScheduledAcquire, WaitsForTheFirstServerOfAPoolThatStartsFromZero) {
  PoolSpec spec = scheduled_pool(1);
  spec.config.scaling = ScalingConfig{.min = 0};
  given(std::move(spec));
  backend(0)->state().take_out(OutOfRotation::unhealthy);

  auto waiting = acquire(100);
  wait_for(50ms);
  ASSERT_FALSE(waiting.ready());
  backend(0)->put_back(OutOfRotation::unhealthy);

  ASSERT_TRUE(becomes_ready(waiting));
  EXPECT_TRUE(waiting.take().ok());
}

TEST_F(ScheduledAcquire, TellsTheWorkOfWhatArrivesAndHowMuchOfItABackendCanDo) {
  given(scheduled_pool(2));

  Lease small = acquire_now(100);
  const Duration of_small = state_->scheduled()->stats().work_sum;
  Lease large = acquire_now(10'000);
  const SchedulerStats stats = state_->scheduled()->stats();

  EXPECT_EQ(stats.arrived_total, 2u);
  EXPECT_GT(of_small, Duration{});
  EXPECT_GT(stats.work_sum - of_small, 5 * of_small);
  EXPECT_LT(stats.work_sum, stats.prefill_sum + stats.decode_sum);
  EXPECT_GT(stats.work_capacity, 0.05);
  EXPECT_LT(stats.work_capacity, 1);
}

TEST_F(ScheduledAcquire, HoldsARequestUntilABackendCanStartIt) {
  given(scheduled_pool(1));
  Lease first = acquire_now(20'000);
  auto waiting = acquire(20'000);
  ASSERT_FALSE(waiting.ready());
  EXPECT_EQ(state_->queue().waiting, 1u);

  first.placed()->first_token(Clock::now());

  ASSERT_TRUE(becomes_ready(waiting));
  const auto lease = waiting.take();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->backend(), backend(0));
  EXPECT_EQ(state_->in_flight(), 2u) << "the first one still streams";
  EXPECT_EQ(state_->queue().waiting, 0u);
  EXPECT_EQ(state_->scheduled()->stats().first_tokens_total, 1u);
}

TEST_F(ScheduledAcquire, CountsTheDemandOfWhatItPlacesAndOfWhatItRefuses) {
  PoolSpec spec = scheduled_pool(1);
  spec.config.picker.shed = 1;
  spec.config.picker.slo.ttft = 100ms;
  given(std::move(spec));
  const Lease first = acquire_now(20'000);
  const SchedulerStats one = state_->scheduled()->stats();
  EXPECT_GT(one.prefill_sum, 1s);
  EXPECT_GT(one.decode_sum, 0s);

  auto refused = acquire(20'000);
  ASSERT_TRUE(becomes_ready(refused));

  EXPECT_FALSE(refused.take());
  const SchedulerStats both = state_->scheduled()->stats();
  EXPECT_EQ(both.refused_total, 1u);
  EXPECT_GT(both.prefill_sum, 1.9 * one.prefill_sum);
  EXPECT_GT(both.decode_sum, 1.9 * one.decode_sum);
}

TEST_F(ScheduledAcquire, ARequestToNoModelIsNotHeld) {
  given(scheduled_pool(1));
  Lease first = acquire_now(20'000);

  auto other = pool_->acquire({});

  ASSERT_TRUE(other.ready());
  const auto lease = other.take();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->placed(), nullptr);
}

TEST_F(ScheduledAcquire, AReleasedLeaseMakesRoomHoweverItsResponseEnded) {
  given(scheduled_pool(1));
  std::optional<Lease> first = acquire_now(20'000);
  auto waiting = acquire(20'000);
  ASSERT_FALSE(waiting.ready());

  first.reset();

  ASSERT_TRUE(becomes_ready(waiting));
  EXPECT_EQ(state_->in_flight(), 1u);
}

TEST_F(ScheduledAcquire, LeavesTheQueueWhenTheClientLeaves) {
  given(scheduled_pool(1));
  Lease first = acquire_now(20'000);
  {
    auto waiting = acquire(20'000);
    ASSERT_EQ(state_->queue().waiting, 1u);
  }
  EXPECT_EQ(state_->queue().waiting, 0u);

  auto granted = acquire(20'000);
  first.release();  // grants the slot, but it is not taken
  granted = Task<Result<Lease>>(Error{});
  EXPECT_EQ(state_->in_flight(), 0u);
  EXPECT_TRUE(acquire(20'000).ready());
}

TEST_F(ScheduledAcquire, RespectsTheLimitOfABackend) {
  given(scheduled_pool(2, 1));
  Lease one = acquire_now(10);
  Lease other = acquire_now(10);
  EXPECT_NE(one.backend(), other.backend());
  auto waiting = acquire(10);
  one.placed()->first_token(Clock::now());
  other.placed()->first_token(Clock::now());
  wait_for(100ms);
  ASSERT_FALSE(waiting.ready());

  other.release();

  ASSERT_TRUE(becomes_ready(waiting));
}

TEST_F(ScheduledAcquire, AtTheLimitTheClientWithTheMostGivesWay) {
  PoolSpec spec = scheduled_pool(1);
  spec.config.limits.queue.size = 3;
  given(spec);
  Lease first = acquire_now(20'000);
  auto oldest = acquire(20'000, {.client = "192.0.2.1"});
  auto older = acquire(20'000, {.client = "192.0.2.1"});
  auto newest = acquire(20'000, {.client = "192.0.2.1"});

  auto more = acquire(20'000, {.client = "192.0.2.1"});
  ASSERT_TRUE(more.ready());
  EXPECT_EQ(more.take().error().fault, Fault::queue_full);

  auto other = acquire(20'000, {.client = "192.0.2.2"});
  EXPECT_FALSE(other.ready());
  ASSERT_TRUE(becomes_ready(newest));
  EXPECT_EQ(newest.take().error().fault, Fault::queue_full);
  EXPECT_EQ(state_->queue().waiting, 3u);

  auto another = acquire(20'000, {.client = "192.0.2.2"});  // now both would have as many
  ASSERT_TRUE(another.ready());
  EXPECT_EQ(another.take().error().fault, Fault::queue_full);
}

TEST_F(ScheduledAcquire, RefusesWhatDoesNotFitIntoTheQueueUnlessItIsMoreUrgent) {
  PoolSpec spec = scheduled_pool(1);
  spec.config.limits.queue.size = 2;
  given(spec);
  Lease first = acquire_now(20'000);
  auto standard = acquire(20'000, {.priority = Priority::standard});
  auto batch = acquire(20'000, {.priority = Priority::batch});

  auto too_many = acquire(20'000, {.priority = Priority::batch});
  ASSERT_TRUE(too_many.ready());
  EXPECT_EQ(too_many.take().error().fault, Fault::queue_full);

  auto urgent = acquire(20'000, {.priority = Priority::interactive});
  EXPECT_FALSE(urgent.ready());
  ASSERT_TRUE(becomes_ready(batch));
  EXPECT_EQ(batch.take().error().fault, Fault::queue_full);

  first.release();
  ASSERT_TRUE(becomes_ready(urgent));
  EXPECT_FALSE(standard.ready());
}

TEST_F(ScheduledAcquire, TimesOutInTheQueue) {
  PoolSpec spec = scheduled_pool(1);
  spec.config.limits.queue.timeout = 100ms;
  given(spec);
  Lease first = acquire_now(200'000);
  auto waiting = acquire(20'000);

  ASSERT_TRUE(becomes_ready(waiting));

  EXPECT_EQ(waiting.take().error().fault, Fault::queue_timeout);
}

TEST_F(ScheduledAcquire, RefusesWhatWouldBeTooLateAndSaysWhenToComeBack) {
  PoolSpec spec = scheduled_pool(1);
  spec.config.picker.shed = 1;
  spec.config.picker.slo.ttft = 50ms;
  given(spec);
  Lease first = acquire_now(20'000);
  auto waiting = acquire(20'000);

  ASSERT_TRUE(becomes_ready(waiting));

  const Error error = waiting.take().error();
  EXPECT_EQ(error.fault, Fault::queue_full);
  EXPECT_GT(error.retry_after_ms, 0u);
  EXPECT_EQ(state_->scheduled()->stats().refused_total, 1u);
}

TEST_F(ScheduledAcquire, NeverSendsARequestWhereItHasBeen) {
  given(scheduled_pool(3));
  for (int i = 0; i < 6; ++i) {
    Hint hint;
    hint.excluded.add(backend(0).get());
    hint.excluded.add(backend(2).get());
    EXPECT_EQ(acquire_now(10, hint).backend(), backend(1));
  }
}

TEST_F(ScheduledAcquire, FailsWithoutABackendAndWhenTheLastOneLeaves) {
  given(scheduled_pool(1));
  Lease first = acquire_now(20'000);
  auto waiting = acquire(20'000);
  backend(0)->state().take_out(OutOfRotation::unhealthy);

  auto failed = acquire(10);
  ASSERT_TRUE(failed.ready());
  EXPECT_EQ(failed.take().error().fault, Fault::no_backend);
  ASSERT_TRUE(becomes_ready(waiting));
  EXPECT_EQ(waiting.take().error().fault, Fault::no_backend);
}

TEST_F(ScheduledAcquire, ABackendThatReturnsGetsWhatWaits) {
  given(scheduled_pool(2));
  backend(1)->state().take_out(OutOfRotation::unhealthy);
  Lease first = acquire_now(20'000);
  auto waiting = acquire(20'000);
  ASSERT_FALSE(waiting.ready());

  backend(1)->put_back(OutOfRotation::unhealthy);

  ASSERT_TRUE(becomes_ready(waiting));
  EXPECT_EQ(waiting.take()->backend(), backend(1));
}

TEST_F(ScheduledAcquire, AStandbyBackendJoinsWhileRequestsAreHeld) {
  PoolSpec spec = scheduled_pool(2);
  spec.backends[1].config.standby = true;
  given(spec);
  Lease first = acquire_now(500'000);
  auto waiting = acquire(500'000);
  ASSERT_FALSE(waiting.ready());

  Instant now = Clock::now();
  for (int i = 0; i < 100; ++i) state_->tick(now += 100ms);

  EXPECT_FALSE(backend(1)->state().is_out(OutOfRotation::standby));
  ASSERT_TRUE(becomes_ready(waiting));
  EXPECT_EQ(waiting.take()->backend(), backend(1));
}

TEST_F(ScheduledAcquire, KeepsWhatItKnowsOverAReload) {
  given(scheduled_pool(2));
  Lease first = acquire_now(20'000);
  Lease second = acquire_now(20'000);
  auto waiting = acquire(20'000);

  PoolSpec spec = scheduled_pool(3);
  for (BackendSpec& each : spec.backends)
    each.config.weight = 7;  // other objects for the same servers
  const auto successor = PoolState::build(spec, state_.get());
  successor->activate();
  Pool new_pool(successor, loop_, 1);

  EXPECT_EQ(successor->queue().waiting, 1u);
  const RequestCost cost{.arrival = {.prompt_tokens = 20'000}};
  auto lease = new_pool.acquire({.cost = &cost}).take();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->backend(), successor->backends()[2]) << "the two others are busy";

  first.release();
  ASSERT_TRUE(becomes_ready(waiting));
  const BackendPtr placed = waiting.take()->backend();
  EXPECT_TRUE(placed == backend(0) || placed == backend(1)) << "in the version that it waited in";
}

TEST_F(ScheduledAcquire, ForgetsABackendThatLeaves) {
  given(scheduled_pool(2));
  const BackendPtr leaves = backend(1);
  const auto successor = PoolState::build(scheduled_pool(1), state_.get());
  successor->activate();
  EXPECT_TRUE(successor->scheduled()->forecast(*leaves, Clock::now()));

  pool_.reset();
  state_.reset();

  EXPECT_FALSE(successor->scheduled()->forecast(*leaves, Clock::now()));
  EXPECT_TRUE(successor->scheduled()->forecast(*successor->backends()[0], Clock::now()));
}

TEST(ScheduledPools, ServeManyWorkersAtOnce) {
  constexpr int threads = 4;
  constexpr int requests = 400;
  const auto state = PoolState::build(scheduled_pool(3, 2));
  state->activate();
  std::atomic<int> served = 0;
  const auto work = [&](std::uint64_t seed) {
    Loop loop;
    Pool pool(state, loop, seed);
    const RequestCost cost{.arrival = {.prompt_tokens = 50}};
    for (int i = 0; i < requests; i += 4) {
      std::vector<Task<Result<Lease>>> tasks;
      for (int j = 0; j < 4; ++j) tasks.push_back(pool.acquire({.cost = &cost}));
      while (!tasks.empty()) {
        const auto find_ready = [&] {
          return std::ranges::find_if(tasks, [](const auto& task) { return task.ready(); });
        };
        loop.run_until([&] { return find_ready() != tasks.end(); }, Clock::now() + patience);
        const auto task = find_ready();
        ASSERT_NE(task, tasks.end());
        auto lease = task->take();
        ASSERT_TRUE(lease.ok());
        lease->placed()->first_token(Clock::now());
        lease->placed()->finished({.output_tokens = 5}, 0, Clock::now());
        ++served;
        lease->release();
        tasks.erase(task);
      }
    }
  };
  std::vector<std::jthread> workers;
  for (int i = 0; i < threads; ++i) workers.emplace_back(work, static_cast<std::uint64_t>(i));
  workers.clear();

  EXPECT_EQ(served, threads * requests);
  EXPECT_EQ(state->in_flight(), 0u);
  EXPECT_EQ(state->queue().waiting, 0u);
}

}  // namespace
}  // namespace evenkeel::testing
