// The order in which a pool's queue serves requests of different priorities.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <thread>
#include <vector>

#include "evenkeel/base/loop.h"
#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr milliseconds patience = 10s;  // reached only by a failing test
constexpr auto interactive = Priority::interactive;
constexpr auto standard = Priority::standard;
constexpr auto batch = Priority::batch;

/// A pool with one slot, which is taken.
class QueuePriority : public ::testing::Test {
 protected:
  void given(QueueConfig queue = {}) {
    state_ = PoolState::build(some_pool(1, 1, queue));
    pool_.emplace(state_, loop_, 1);
    taken_ = std::move(*pool_->acquire({}).take());
  }
  void arrive(Priority priority) { waiting_.push_back(pool_->acquire({.priority = priority})); }
  /// Frees the slot, again and again; the requests by number, as they get it.
  std::vector<std::size_t> order() {
    std::vector<std::size_t> served;
    const std::size_t queued = state_->queue().waiting;
    while (served.size() < queued) {
      taken_.release();
      const std::size_t next = next_ready(served);
      if (next == waiting_.size()) break;
      served.push_back(next);
      auto lease = waiting_[next].take();
      EXPECT_TRUE(lease);
      if (lease) taken_ = std::move(*lease);
    }
    return served;
  }
  std::size_t next_ready(const std::vector<std::size_t>& served) {
    std::size_t found = waiting_.size();
    loop_.run_until(
        [&] {
          for (std::size_t i = 0; i < waiting_.size(); ++i) {
            const bool known = std::find(served.begin(), served.end(), i) != served.end();
            if (!known && !ended_[i] && waiting_[i].ready()) found = i;
          }
          return found != waiting_.size();
        },
        Clock::now() + patience);
    return found;
  }
  /// A request that must have ended by now: why.
  Fault fault_of(std::size_t number) {
    loop_.run_until([&] { return waiting_[number].ready(); }, Clock::now() + patience);
    EXPECT_TRUE(waiting_[number].ready());
    ended_[number] = true;
    auto lease = waiting_[number].take();
    EXPECT_FALSE(lease);
    return lease ? Fault::internal : lease.error().fault;
  }

  Loop loop_;
  std::shared_ptr<PoolState> state_;
  std::optional<Pool> pool_;
  Lease taken_;
  std::vector<Task<Result<Lease>>> waiting_;
  std::array<bool, 16> ended_{};
};

TEST_F(QueuePriority, AtTheLimitTheClientWithTheMostGivesWayToOneWithFewer) {
  given({.size = 4, .timeout = patience});
  const auto arrive_of = [&](std::string_view client, std::uint32_t tenant = 0) {
    waiting_.push_back(pool_->acquire({.tenant = tenant, .client = client}));
  };
  for (int i = 0; i < 5; ++i) arrive_of("192.0.2.1");
  EXPECT_EQ(fault_of(4), Fault::queue_full) << "its own requests do not give way to it";

  arrive_of("192.0.2.2");
  EXPECT_EQ(fault_of(3), Fault::queue_full) << "the newest of the other client";
  arrive_of("192.0.2.2", 7);
  EXPECT_EQ(fault_of(2), Fault::queue_full) << "a tenant is a client of its own";
  arrive_of("192.0.2.3");
  EXPECT_EQ(fault_of(1), Fault::queue_full);
  arrive_of("192.0.2.4");
  EXPECT_EQ(fault_of(8), Fault::queue_full) << "now each has one";

  EXPECT_EQ(order(), (std::vector<std::size_t>{0, 5, 6, 7}));
}

TEST_F(QueuePriority, NoRequestGivesWayToALessUrgentOneOfAnotherClient) {
  given({.size = 3, .timeout = patience});
  for (int i = 0; i < 3; ++i) {
    waiting_.push_back(pool_->acquire({.priority = interactive, .client = "192.0.2.1"}));
  }

  waiting_.push_back(pool_->acquire({.priority = standard, .client = "192.0.2.2"}));

  EXPECT_EQ(fault_of(3), Fault::queue_full);
}

TEST_F(QueuePriority, ARequestFromAnEarlierVersionKeepsItsPlace) {
  given({.size = 3});
  Pool former(state_, loop_, 1);
  waiting_.push_back(former.acquire({.priority = batch}));
  waiting_.push_back(former.acquire({}));
  state_ = PoolState::build(some_pool(1, 1, {.size = 3}), state_.get());
  pool_.emplace(state_, loop_, 1);
  arrive(standard);
  arrive(batch);  // takes no place, as the queue is full

  former.hand_queue_to(&*pool_);

  EXPECT_EQ(fault_of(3), Fault::queue_full);
  EXPECT_EQ(order(), (std::vector<std::size_t>{1, 2, 0}));
}

TEST_F(QueuePriority, ServesTheMostUrgentFirstAndEqualsInOrder) {
  given();
  for (const Priority each : {batch, standard, interactive, batch, standard, interactive}) {
    arrive(each);
  }

  EXPECT_EQ(order(), (std::vector<std::size_t>{2, 5, 1, 4, 0, 3}));
}

TEST_F(QueuePriority, CountsAsStandardUnlessARequestSaysSo) {
  given();
  arrive(batch);
  waiting_.push_back(pool_->acquire({}));
  arrive(interactive);

  EXPECT_EQ(order(), (std::vector<std::size_t>{2, 1, 0}));
}

TEST_F(QueuePriority, ARequestThatWaitsRisesByAClassWithEachThirdOfTheTimeout) {
  given({.timeout = 3s});
  arrive(batch);     // counts as of 2 s later
  arrive(standard);  // counts as of 1 s later
  std::this_thread::sleep_for(1100ms);
  loop_.run_until([] { return true; }, Clock::now());
  arrive(interactive);
  arrive(standard);

  EXPECT_EQ(order(), (std::vector<std::size_t>{1, 2, 0, 3}));
}

TEST_F(QueuePriority, AnUrgentRequestTakesThePlaceOfTheNewestLessUrgentOne) {
  given({.size = 3});
  arrive(batch);
  arrive(batch);
  arrive(standard);

  arrive(interactive);
  EXPECT_EQ(fault_of(1), Fault::queue_full);
  arrive(standard);
  EXPECT_EQ(fault_of(0), Fault::queue_full);

  EXPECT_EQ(state_->queue().waiting, 3u);
  EXPECT_EQ(order(), (std::vector<std::size_t>{3, 2, 4}));
}

TEST_F(QueuePriority, ARequestTakesNoPlaceOfItsEqual) {
  given({.size = 2});
  arrive(standard);
  arrive(interactive);

  arrive(standard);
  EXPECT_EQ(fault_of(2), Fault::queue_full);
  arrive(batch);
  EXPECT_EQ(fault_of(3), Fault::queue_full);

  EXPECT_EQ(order(), (std::vector<std::size_t>{1, 0}));
}

TEST_F(QueuePriority, ADisplacedRequestThatIsDroppedLeavesNothingBehind) {
  given({.size = 1});
  arrive(batch);
  arrive(interactive);
  waiting_[0].drop();  // before it has heard of it
  ended_[0] = true;

  EXPECT_EQ(state_->queue().waiting, 1u);
  EXPECT_EQ(order(), (std::vector<std::size_t>{1}));
  taken_.release();
  EXPECT_EQ(state_->in_flight(), 0u);
}

TEST_F(QueuePriority, WithoutAQueueNothingIsDisplaced) {
  given({.size = 0});
  arrive(interactive);
  EXPECT_EQ(fault_of(0), Fault::queue_full);
}

}  // namespace
}  // namespace evenkeel::testing
