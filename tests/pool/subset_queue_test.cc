// The queue of a pool whose requests are for parts of it.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "pool/admission.h"
#include "pool/versioned_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr Duration patience = 10s;  // reached only by a failing test

class SubsetQueue : public ::testing::Test {
 protected:
  using Request = Task<Result<Lease>>;

  void given(PoolSpec spec) {
    states_.push_back(PoolState::build(std::move(spec), states_.empty() ? nullptr : &state()));
    state().activate();
    pools_.push_back(std::make_unique<Pool>(states_.back(), loop_, states_.size()));
  }
  PoolState& state() { return *states_.back(); }
  Pool& pool() { return *pools_.back(); }
  SharedBackend& shared(std::size_t number) { return state().backends()[number]->shared(); }
  Hint of(const SubsetSpec& subset, Priority priority = Priority::standard) {
    return {.subset = state().backend_set().number_of(subset), .priority = priority};
  }
  /// All slots of the pool, by number of the backend; each has one.
  void take_all_slots() {
    const std::size_t count = state().backends().size();
    taken_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      auto lease = pool().acquire({}).take();
      ASSERT_TRUE(lease);
      for (std::size_t k = 0; k < count; ++k) {
        if (lease->backend() == state().backends()[k]) taken_[k] = std::move(*lease);
      }
    }
  }
  Request wait(const Hint& hint) {
    auto request = pool().acquire(hint);
    EXPECT_FALSE(request.ready());
    return request;
  }
  bool ends(const Request& request) {
    return loop_.run_until([&] { return request.ready(); }, Clock::now() + patience);
  }
  Fault fault(Request request) {
    EXPECT_TRUE(ends(request));
    auto lease = request.take();
    EXPECT_FALSE(lease);
    return lease ? Fault::internal : lease.error().fault;
  }
  /// Ends with a slot of the backend of that number.
  void expect_served(Request request, std::size_t number) {
    ASSERT_TRUE(ends(request));
    auto lease = request.take();
    ASSERT_TRUE(lease);
    EXPECT_EQ(&lease->backend()->shared(), &shared(number));
  }

  Loop loop_;
  std::vector<std::shared_ptr<PoolState>> states_;
  std::vector<std::unique_ptr<Pool>> pools_;
  std::vector<Lease> taken_;
};

TEST_F(SubsetQueue, ARefusalTellsWhenItsOwnBackendsHaveRoom) {
  given(versioned_pool(3, 1, 1, {.size = 1}));
  Instant now = Clock::now();
  for (int i = 0; i < 600; ++i) {  // v7: 20 requests a second, v8: two
    now += 100ms;
    for (const std::size_t number : {0u, 1u, 2u}) {
      if (number == 2 && i % 5 != 0) continue;
      ASSERT_TRUE(state().backends()[number]->try_acquire(now));
      state().backends()[number]->release();
    }
    state().tick(now);
  }
  take_all_slots();
  const auto seconds = [&](const Hint& hint) {
    Request refused = pool().acquire(hint);
    EXPECT_TRUE(ends(refused));
    const Error error = std::move(refused.take().error());
    EXPECT_EQ(error.fault, Fault::queue_full);
    return error.retry_after_ms / 1000.0;
  };

  const Request one = wait(of(v8));
  EXPECT_NEAR(seconds(of(v8)), 1, 0.1);
  const Request other = wait(of(v7));
  EXPECT_NEAR(seconds(of(v7)), 0.1, 0.02);
  const Request any = wait({});
  EXPECT_NEAR(seconds(of(v8)), 1.5, 0.1) << "a third of the one for any backend, rounded up";
  EXPECT_NEAR(seconds({}), 4 / 22.0, 0.02);
}

TEST_F(SubsetQueue, AFullOneTakesNoPlaceOfOthers) {
  given(versioned_pool(2, 1, 1, {.size = 2}));
  take_all_slots();
  std::vector<Request> waiting;
  for (int i = 0; i < 2; ++i) waiting.push_back(wait(of(v8)));
  EXPECT_EQ(fault(pool().acquire(of(v8))), Fault::queue_full);

  for (int i = 0; i < 2; ++i) waiting.push_back(wait(of(v7)));
  EXPECT_EQ(fault(pool().acquire(of(v7))), Fault::queue_full);
  for (int i = 0; i < 2; ++i) waiting.push_back(wait({}));
  EXPECT_EQ(fault(pool().acquire({})), Fault::queue_full);

  EXPECT_EQ(state().queue().waiting, 6u);
  waiting.clear();
  EXPECT_EQ(state().queue().waiting, 0u);
}

TEST_F(SubsetQueue, AFullOneStaysFullInTheNextVersionOfThePool) {
  given(versioned_pool(2, 1, 1, {.size = 1}));
  take_all_slots();
  auto first = wait(of(v8));

  PoolSpec spec = versioned_pool(2, 1, 1, {.size = 1});
  spec.subsets = {v8, v7};  // other numbers
  given(std::move(spec));

  EXPECT_EQ(fault(pool().acquire(of(v8))), Fault::queue_full);
  auto other = wait(of(v7));
  taken_[1].release();
  expect_served(std::move(first), 1);
}

TEST_F(SubsetQueue, AnUrgentRequestTakesThePlaceOfOneOfItsOwn) {
  given(versioned_pool(2, 1, 1, {.size = 1}));
  take_all_slots();
  auto canary = wait(of(v8, Priority::batch));
  auto stays = wait(of(v7));
  EXPECT_EQ(fault(pool().acquire(of(v7))), Fault::queue_full);

  auto urgent = wait(of(v7, Priority::interactive));

  EXPECT_EQ(fault(std::move(stays)), Fault::queue_full);
  EXPECT_FALSE(canary.ready());
  EXPECT_EQ(state().queue().waiting, 2u);
  taken_[0].release();
  expect_served(std::move(urgent), 0);
  taken_[1].release();
  expect_served(std::move(canary), 1);
}

TEST_F(SubsetQueue, AnUrgentRequestTakesThePlaceOfTheLastOne) {
  given(versioned_pool(2, 1, 1, {.size = 1}));
  take_all_slots();
  auto urgent = wait(of(v8));
  auto stays = wait(of(v7, Priority::batch));

  urgent = wait(of(v7));  // leaves one part of the queue, and empties the other

  EXPECT_EQ(fault(std::move(stays)), Fault::queue_full);
  taken_[0].release();
  expect_served(std::move(urgent), 0);
}

TEST_F(SubsetQueue, IsNotLookedAtForSlotsOfOthers) {
  given(versioned_pool(3, 1, 1));
  Admission& queue = state().admission();
  take_all_slots();

  auto canary = wait(of(v8));
  EXPECT_TRUE(queue.is_awaited(shared(2)));
  EXPECT_FALSE(queue.is_awaited(shared(0)));
  auto any = wait({});
  EXPECT_TRUE(queue.is_awaited(shared(0)));
  any.drop();
  EXPECT_FALSE(queue.is_awaited(shared(0)));
  EXPECT_TRUE(queue.is_awaited(shared(2)));

  // A request for the whole pool finds a free slot past those that wait for another.
  taken_[0].release();
  auto passes = pool().acquire({});
  ASSERT_TRUE(passes.ready());
  expect_served(std::move(passes), 0);
  canary.drop();
  EXPECT_FALSE(queue.has_waiting());
}

TEST_F(SubsetQueue, SharesASlotByPriorityAndArrival) {
  given(versioned_pool(2, 1, 1));
  take_all_slots();
  auto batch = wait(of(v8, Priority::batch));
  auto any = wait({});
  auto canary = wait(of(v8));
  auto stable = wait(of(v7, Priority::interactive));
  auto later = wait({});
  auto urgent = wait(of(v8, Priority::interactive));

  const auto serve_next = [&](Request& next) {
    taken_[1].release();
    ASSERT_TRUE(ends(next));
    auto lease = next.take();
    ASSERT_TRUE(lease);
    EXPECT_EQ(&lease->backend()->shared(), &shared(1));
    taken_[1] = std::move(*lease);
  };
  for (Request* next : {&urgent, &any, &canary, &later, &batch}) serve_next(*next);
  EXPECT_FALSE(stable.ready());
}

TEST_F(SubsetQueue, APinnedRequestWaitsWithTheVersionOfItsBackend) {
  PoolSpec spec = versioned_pool(2, 1, 1, {.size = 1});
  spec.config.affinity = AffinityConfig{};
  given(std::move(spec));
  Hint session = of(v8);
  session.session = SessionHint{.key = 1};
  auto held = pool().acquire(session).take();
  ASSERT_TRUE(held);
  auto stable = pool().acquire(of(v7)).take();
  ASSERT_TRUE(stable);

  // Of a cookie, which the split does not know.
  session.subset = state().backend_set().number_of(v7);
  auto waiting = wait(session);

  EXPECT_EQ(fault(pool().acquire(session)), Fault::queue_full);
  EXPECT_EQ(fault(pool().acquire(of(v8))), Fault::queue_full);
  auto other = wait(of(v7));
  held->release();
  expect_served(std::move(waiting), 1);
}

TEST_F(SubsetQueue, ServesABackendThatHasJoinedASubset) {
  given(versioned_pool(3, 1, 1));
  take_all_slots();
  auto canary = wait(of(v8));
  given(versioned_pool(3, 2, 1));  // the second one too
  auto next = wait(of(v8));

  taken_[1].release();  // held since it was another version

  expect_served(std::move(next), 1);
  EXPECT_FALSE(canary.ready()) << "it knows the old labels";
  taken_[2].release();
  expect_served(std::move(canary), 2);
}

TEST_F(SubsetQueue, ServesARequestForASubsetThatIsGone) {
  given(versioned_pool(2, 1, 1));
  take_all_slots();
  auto canary = wait(of(v8));
  PoolSpec spec = versioned_pool(2, 1, 1);
  spec.subsets = {};
  given(std::move(spec));

  taken_[1].release();

  expect_served(std::move(canary), 1);
}

TEST_F(SubsetQueue, ServesMoreSubsetsThanItHasMarksFor) {
  constexpr std::size_t count = 150;
  PoolSpec spec = some_pool(count, 1);
  for (std::size_t i = 0; i < count; ++i) {
    spec.backends[i].config.labels["zone"] = std::to_string(i);
    spec.subsets.push_back({.any_of = {spec.backends[i].config.labels}});
  }
  given(std::move(spec));
  take_all_slots();
  std::vector<Request> waiting;
  for (std::uint32_t i = 0; i < count; ++i) waiting.push_back(wait({.subset = i + 1}));

  for (std::size_t i = 0; i < count; ++i) {
    taken_[i].release();
    expect_served(std::move(waiting[i]), i);
  }
  EXPECT_FALSE(state().admission().has_waiting());
}

}  // namespace
}  // namespace evenkeel::testing
