#include "sim/dynamic_batcher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <optional>
#include <random>
#include <vector>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

constexpr Instant start = Instant(1h);

/// A batcher and the requests in its queue.
class Batching : public testing::Test {
 protected:
  void model(BatchingSpec spec) { batcher.emplace(spec); }
  void arrive(Duration after, std::uint32_t items = 1) {
    batcher->add(requests.emplace_back(QueuedRequest{.items = items, .arrived = start + after}));
  }
  /// How many requests a free instance gets then.
  std::size_t given(Duration after) const { return batcher->decide(start + after).requests; }

  std::deque<QueuedRequest> requests;
  std::optional<DynamicBatcher> batcher;
};

TEST_F(Batching, HasNothingToDoWhenTheQueueIsEmpty) {
  model({.max_queue_delay = 1ms});
  EXPECT_EQ(given(0ms), 0u);
  EXPECT_EQ(batcher->decide(start).retry_at, never);
}

TEST_F(Batching, TakesTheWholeQueueWithoutADelay) {
  model({.max_batch_size = 8});
  arrive(0ms);
  EXPECT_EQ(given(0ms), 1u);
  for (int i = 0; i < 4; ++i) arrive(0ms);
  EXPECT_EQ(given(0ms), 5u);
  for (int i = 0; i < 9; ++i) arrive(0ms);
  EXPECT_EQ(given(0ms), 8u);
}

TEST_F(Batching, RunsRequestsOneByOneWithoutBatching) {
  model({.max_batch_size = 0, .max_queue_delay = 10ms});
  arrive(0ms);
  arrive(0ms);
  EXPECT_EQ(given(0ms), 1u);
}

TEST_F(Batching, WaitsForOthersUntilTheDelayOfTheFirst) {
  model({.max_batch_size = 8, .max_queue_delay = 100us});
  arrive(0us);
  arrive(60us);
  EXPECT_EQ(given(60us), 0u);
  EXPECT_EQ(batcher->decide(start + 60us).retry_at, start + 100us);
  EXPECT_EQ(given(99us), 0u);
  EXPECT_EQ(given(100us), 2u);
}

TEST_F(Batching, RunsAFullBatchAtOnce) {
  model({.max_batch_size = 3, .max_queue_delay = 1s});
  arrive(0ms);
  arrive(0ms);
  EXPECT_EQ(given(0ms), 0u);
  arrive(0ms);
  EXPECT_EQ(given(0ms), 3u);
  arrive(0ms);
  EXPECT_EQ(given(0ms), 3u);
}

TEST_F(Batching, RunsAPreferredSizeAtOnceAndLeavesTheRest) {
  model({.max_batch_size = 16, .preferred_sizes = {4, 8}, .max_queue_delay = 1s});
  for (int i = 0; i < 3; ++i) arrive(0ms);
  EXPECT_EQ(given(0ms), 0u);
  arrive(0ms);
  EXPECT_EQ(given(0ms), 4u);
  for (int i = 0; i < 3; ++i) arrive(0ms);
  EXPECT_EQ(given(0ms), 4u);  // seven are queued: below the next preferred size
  arrive(0ms);
  EXPECT_EQ(given(0ms), 8u);  // the largest preferred size
  for (int i = 0; i < 3; ++i) arrive(0ms);
  EXPECT_EQ(given(0ms), 8u);
}

TEST_F(Batching, TakesTheWholeQueueOnceTheFirstHasWaitedForTheDelay) {
  model({.max_batch_size = 16, .preferred_sizes = {4}, .max_queue_delay = 1ms});
  for (int i = 0; i < 6; ++i) arrive(0ms);
  EXPECT_EQ(given(0ms), 4u);
  EXPECT_EQ(given(1ms), 6u);
}

TEST_F(Batching, PrefersASizeAlsoWithoutADelay) {
  model({.max_batch_size = 16, .preferred_sizes = {4}});
  for (int i = 0; i < 6; ++i) arrive(0ms);
  EXPECT_EQ(given(0ms), 4u);
  batcher->take(4);
  EXPECT_EQ(given(0ms), 2u);
}

TEST_F(Batching, CountsTheItemsOfARequestAndNeverSplitsIt) {
  model({.max_batch_size = 8, .max_queue_delay = 1s});
  arrive(0ms, 3);
  arrive(0ms, 4);
  EXPECT_EQ(given(0ms), 0u);
  arrive(0ms, 2);  // seven and two exceed eight: the batch cannot grow
  EXPECT_EQ(given(0ms), 2u);
}

TEST_F(Batching, ForgetsRemovedRequests) {
  model({.max_batch_size = 8});
  arrive(0ms);
  arrive(1ms);
  batcher->remove(requests[0]);
  EXPECT_EQ(batcher->waiting(), 1u);
  const auto batch = batcher->take(1);
  EXPECT_EQ(batch, std::vector<QueuedRequest*>{&requests[1]});
  EXPECT_EQ(batcher->waiting(), 0u);
}

TEST_F(Batching, KnowsWhenItsQueueIsFull) {
  model({.max_queue_size = 2});
  arrive(0ms);
  EXPECT_FALSE(batcher->full());
  arrive(0ms);
  EXPECT_TRUE(batcher->full());
}

TEST_F(Batching, CostsLessPerItemInLargerBatches) {
  model({.batch_seconds = 2e-3, .item_seconds = 0.5e-3});
  EXPECT_DOUBLE_EQ(batcher->batch_seconds_for(1), 2.5e-3);
  EXPECT_DOUBLE_EQ(batcher->batch_seconds_for(8), 6e-3);
}

/// For any arrivals: batches keep the order, never exceed the limit, and no request waits beyond
/// the delay while an instance is free.
TEST(DynamicBatcher, HoldsItsInvariantsForRandomArrivals) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    BatchingSpec spec{.max_batch_size = 1 + static_cast<std::uint32_t>(random() % 12),
                      .max_queue_delay = std::chrono::microseconds(random() % 300)};
    for (auto i = random() % 3; i > 0; --i) {
      spec.preferred_sizes.push_back(1 +
                                     static_cast<std::uint32_t>(random()) % spec.max_batch_size);
    }
    DynamicBatcher batcher(spec);
    std::deque<QueuedRequest> requests;
    std::size_t taken = 0;
    Instant now = start;
    for (int step = 0; step < 100; ++step) {
      now += std::chrono::microseconds(random() % 80);
      if (random() % 3 != 0) {
        batcher.add(requests.emplace_back(
            QueuedRequest{.items = 1 + static_cast<std::uint32_t>(random()) % spec.max_batch_size,
                          .arrived = now}));
      }
      const auto decision = batcher.decide(now);
      if (decision.requests == 0) {
        if (batcher.waiting() == 0) continue;
        ASSERT_GT(decision.retry_at, now);
        ASSERT_LE(decision.retry_at, requests[taken].arrived + spec.max_queue_delay);
        continue;
      }
      std::uint32_t items = 0;
      for (QueuedRequest* each : batcher.take(decision.requests)) {
        ASSERT_EQ(each, &requests[taken++]);
        items += each->items;
      }
      ASSERT_LE(items, spec.max_batch_size);
    }
  }
}

}  // namespace
}  // namespace evenkeel
