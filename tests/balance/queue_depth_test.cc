#include <gtest/gtest.h>

#include "balance/queue_estimate.h"
#include "balance/some_backends.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

void enter(Load& load, int requests) {
  for (int i = 0; i < requests; ++i) load.try_acquire(0);
}
void release(Load& load, int requests) {
  for (int i = 0; i < requests; ++i) load.release();
}

TEST(QueueEstimate, IsTheLocalCountWithoutASample) {
  Load load;
  enter(load, 7);
  EXPECT_EQ(estimated_queue_depth(load, noon), 7);

  load.signals().publish({.kv_cache_ratio = 0.5}, noon, 7);

  EXPECT_EQ(estimated_queue_depth(load, noon), 7) << "polled, but not its queue";
}

TEST(QueueEstimate, AddsTheRequestsOfOtherClients) {
  Load load;
  enter(load, 7);
  load.signals().publish({.running = 16, .waiting = 4}, noon, 7);

  EXPECT_EQ(estimated_queue_depth(load, noon), 20);
}

TEST(QueueEstimate, IsCorrectedByRequestsSinceThePoll) {
  Load load;
  enter(load, 7);
  load.signals().publish({.running = 16, .waiting = 4}, noon, 7);

  enter(load, 5);
  EXPECT_EQ(estimated_queue_depth(load, noon + 100ms), 25);
  release(load, 10);
  EXPECT_EQ(estimated_queue_depth(load, noon + 200ms), 15);
}

TEST(QueueEstimate, OmitsResponsesThatClientsAreStillReading) {
  Load load;
  enter(load, 10);

  load.signals().publish({.running = 2, .waiting = 0}, noon, 10);

  EXPECT_EQ(estimated_queue_depth(load, noon), 2);
  release(load, 9);
  EXPECT_EQ(estimated_queue_depth(load, noon), 0) << "never below nothing";
}

TEST(QueueEstimate, DecaysToTheLocalCount) {
  Load load;
  enter(load, 3);
  load.signals().publish({.running = 11, .waiting = 0}, noon, 3);

  EXPECT_EQ(estimated_queue_depth(load, noon + 2s), 11);
  EXPECT_EQ(estimated_queue_depth(load, noon + 6s), 7);
  EXPECT_EQ(estimated_queue_depth(load, noon + 10s), 3);
  EXPECT_EQ(estimated_queue_depth(load, noon + 1h), 3);
}

TEST(QueueEstimate, TreatsASingleCountAsALowerBound) {
  Load load;
  enter(load, 8);

  load.signals().publish({.waiting = 2}, noon, 8);
  EXPECT_EQ(estimated_queue_depth(load, noon), 8) << "the other six may be running";
  load.signals().publish({.waiting = 12}, noon, 8);
  EXPECT_EQ(estimated_queue_depth(load, noon), 12);
}

TEST(QueueDepth, PicksTheShortestQueue) {
  auto backends = some_backends(3);
  const double running[] = {9, 2, 5};
  for (std::size_t i = 0; i < 3; ++i) {
    (*backends)[i]->load().signals().publish({.running = running[i], .waiting = 0}, noon, 0);
  }
  auto picker = make_picker({.backends = backends, .choice = {.name = "queue-depth"}}, 3);

  EXPECT_EQ(count_picks(*picker, *backends, 50)[1], 50);
}

TEST(QueueDepth, BalancesTheRequestsOfOtherClients) {
  auto backends = some_backends(2);
  (*backends)[0]->load().signals().publish({.running = 20, .waiting = 10}, noon, 0);
  (*backends)[1]->load().signals().publish({.running = 0, .waiting = 0}, noon, 0);
  auto picker = make_picker({.backends = backends, .choice = {.name = "queue-depth"}}, 3);

  for (int i = 0; i < 50; ++i) (*picker->pick({.now = noon}))->try_acquire(noon);

  EXPECT_EQ((*backends)[0]->load().in_flight(), 10u);
  EXPECT_EQ((*backends)[1]->load().in_flight(), 40u);
}

TEST(QueueDepth, DoesNotHerdBetweenTwoPolls) {
  auto backends = some_backends(4);
  for (std::size_t i = 0; i < 4; ++i) {
    (*backends)[i]->load().signals().publish({.running = i == 2 ? 0.0 : 3.0, .waiting = 0}, noon,
                                             0);
  }
  const PickerFactory make =
      picker_factory({.backends = backends, .choice = {.name = "queue-depth"}});
  auto one = make(1);
  auto other = make(2);

  for (int i = 0; i < 20; ++i) {
    (*one->pick({.now = noon}))->try_acquire(noon);
    (*other->pick({.now = noon}))->try_acquire(noon);
  }

  // All four reach the same depth without another poll.
  EXPECT_NEAR((*backends)[2]->load().in_flight(), 12, 1);
  for (std::size_t i : {0u, 1u, 3u}) EXPECT_NEAR((*backends)[i]->load().in_flight(), 9, 1);
}

TEST(QueueDepth, CountsWeights) {
  auto backends = weighted_backends({1, 3});
  for (const auto& backend : *backends) {
    backend->load().signals().publish({.running = 0, .waiting = 0}, noon, 0);
  }
  auto picker = make_picker({.backends = backends, .choice = {.name = "queue-depth"}}, 3);

  for (int i = 0; i < 80; ++i) (*picker->pick({.now = noon}))->try_acquire(noon);

  EXPECT_NEAR((*backends)[1]->load().in_flight(), 60, 1);
}

}  // namespace
}  // namespace evenkeel::testing
