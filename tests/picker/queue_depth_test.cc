#include <gtest/gtest.h>

#include "evenkeel/picker/queue_estimate.h"
#include "picker/picks.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

void enter(SharedBackend& shared, int requests) {
  for (int i = 0; i < requests; ++i) shared.slots.try_acquire();
}
void release(SharedBackend& shared, int requests) {
  for (int i = 0; i < requests; ++i) shared.slots.release();
}

TEST(QueueEstimate, IsTheLocalCountWithoutASample) {
  SharedBackend shared;
  enter(shared, 7);
  EXPECT_EQ(estimated_queue_depth(shared, noon), 7);

  shared.signals.publish({.kv_cache_ratio = 0.5}, noon, 7);

  EXPECT_EQ(estimated_queue_depth(shared, noon), 7) << "polled, but not its queue";
}

TEST(QueueEstimate, AddsTheRequestsOfOtherClients) {
  SharedBackend shared;
  enter(shared, 7);
  shared.signals.publish({.running = 16, .waiting = 4}, noon, 7);

  EXPECT_EQ(estimated_queue_depth(shared, noon), 20);
}

TEST(QueueEstimate, IsCorrectedByRequestsSinceThePoll) {
  SharedBackend shared;
  enter(shared, 7);
  shared.signals.publish({.running = 16, .waiting = 4}, noon, 7);

  enter(shared, 5);
  EXPECT_EQ(estimated_queue_depth(shared, noon + 100ms), 25);
  release(shared, 10);
  EXPECT_EQ(estimated_queue_depth(shared, noon + 200ms), 15);
}

TEST(QueueEstimate, OmitsResponsesThatClientsAreStillReading) {
  SharedBackend shared;
  enter(shared, 10);

  shared.signals.publish({.running = 2, .waiting = 0}, noon, 10);

  EXPECT_EQ(estimated_queue_depth(shared, noon), 2);
  release(shared, 9);
  EXPECT_EQ(estimated_queue_depth(shared, noon), 0) << "never below nothing";
}

TEST(QueueEstimate, DecaysToTheLocalCount) {
  SharedBackend shared;
  enter(shared, 3);
  shared.signals.publish({.running = 11, .waiting = 0}, noon, 3);

  EXPECT_EQ(estimated_queue_depth(shared, noon + 2s), 11);
  EXPECT_EQ(estimated_queue_depth(shared, noon + 6s), 7);
  EXPECT_EQ(estimated_queue_depth(shared, noon + 10s), 3);
  EXPECT_EQ(estimated_queue_depth(shared, noon + 1h), 3);
}

TEST(QueueEstimate, TreatsASingleCountAsALowerBound) {
  SharedBackend shared;
  enter(shared, 8);

  shared.signals.publish({.waiting = 2}, noon, 8);
  EXPECT_EQ(estimated_queue_depth(shared, noon), 8) << "the other six may be running";
  shared.signals.publish({.waiting = 12}, noon, 8);
  EXPECT_EQ(estimated_queue_depth(shared, noon), 12);
}

TEST(QueueDepth, PicksTheShortestQueue) {
  auto backends = some_backends(3);
  const double running[] = {9, 2, 5};
  for (std::size_t i = 0; i < 3; ++i) {
    (*backends)[i]->signals().publish({.running = running[i], .waiting = 0}, noon, 0);
  }
  auto picker = make_picker({.backends = backends, .choice = {.name = "queue-depth"}}, 3);

  EXPECT_EQ(count_picks(*picker, *backends, 50)[1], 50);
}

TEST(QueueDepth, BalancesTheRequestsOfOtherClients) {
  auto backends = some_backends(2);
  (*backends)[0]->signals().publish({.running = 20, .waiting = 10}, noon, 0);
  (*backends)[1]->signals().publish({.running = 0, .waiting = 0}, noon, 0);
  auto picker = make_picker({.backends = backends, .choice = {.name = "queue-depth"}}, 3);

  for (int i = 0; i < 50; ++i) (*picker->pick({.now = noon}))->try_acquire(noon);

  EXPECT_EQ((*backends)[0]->slots().in_flight(), 10u);
  EXPECT_EQ((*backends)[1]->slots().in_flight(), 40u);
}

TEST(QueueDepth, DoesNotHerdBetweenTwoPolls) {
  auto backends = some_backends(4);
  for (std::size_t i = 0; i < 4; ++i) {
    (*backends)[i]->signals().publish({.running = i == 2 ? 0.0 : 3.0, .waiting = 0}, noon, 0);
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
  EXPECT_NEAR((*backends)[2]->slots().in_flight(), 12, 1);
  for (std::size_t i : {0u, 1u, 3u}) EXPECT_NEAR((*backends)[i]->slots().in_flight(), 9, 1);
}

TEST(QueueDepth, CountsWeights) {
  auto backends = weighted_backends({1, 3});
  for (const auto& backend : *backends) {
    backend->signals().publish({.running = 0, .waiting = 0}, noon, 0);
  }
  auto picker = make_picker({.backends = backends, .choice = {.name = "queue-depth"}}, 3);

  for (int i = 0; i < 80; ++i) (*picker->pick({.now = noon}))->try_acquire(noon);

  EXPECT_NEAR((*backends)[1]->slots().in_flight(), 60, 1);
}

}  // namespace
}  // namespace evenkeel::testing
