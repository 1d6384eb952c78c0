// Pools that pin sessions to backends.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "evenkeel/base/loop.h"
#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr Duration patience = 10s;  // reached only by a failing test

Hint of_session(std::uint64_t key) {
  Hint hint;
  hint.session = SessionHint{.key = key};
  return hint;
}

Hint of_sequence(std::uint64_t key) {
  Hint hint = of_session(key);
  hint.session->has_state = true;
  return hint;
}

class PinnedSessions : public ::testing::Test {
 protected:
  void given(std::size_t count, std::uint32_t limit = 0, QueueConfig queue = {}) {
    PoolSpec spec = some_pool(count, limit, queue);
    spec.config.picker.name = "round-robin";
    spec.config.affinity = AffinityConfig{};
    given(std::move(spec));
  }
  void given(PoolSpec spec) {
    state_ = PoolState::build(std::move(spec), state_.get());
    state_->activate();
    pool_.emplace(state_, loop_, 1);
  }
  /// The backend of a request that ends at once.
  BackendPtr place(const Hint& hint) {
    auto task = pool_->acquire(hint);
    EXPECT_TRUE(task.ready());
    auto lease = task.take();
    return lease ? lease->backend() : nullptr;
  }
  bool becomes_ready(const Task<Result<Lease>>& task) {
    return loop_.run_until([&] { return task.ready(); }, Clock::now() + patience);
  }
  /// Pins sessions 0, 1, 2 ... to one backend each.
  std::vector<BackendPtr> pin(std::uint64_t count) {
    std::vector<BackendPtr> backends;
    for (std::uint64_t key = 0; key < count; ++key) backends.push_back(place(of_session(key)));
    return backends;
  }
  AffinityStats stats() { return state_->affinity()->stats(); }

  Loop loop_;
  std::shared_ptr<PoolState> state_;
  std::optional<Pool> pool_;
};

TEST_F(PinnedSessions, StayAtTheBackendOfTheirFirstRequest) {
  given(4);
  const auto first = pin(8);

  EXPECT_EQ((std::set<BackendPtr>(first.begin(), first.end()).size()), 4u);
  for (int round = 0; round < 3; ++round) EXPECT_EQ(pin(8), first);
  EXPECT_EQ(stats().sessions, 8u);
  EXPECT_EQ(stats().misses, 8u);
  EXPECT_EQ(stats().hits, 24u);
}

TEST_F(PinnedSessions, TheStartOfASequenceIsPlacedAfresh) {
  given(2);
  Hint start = of_sequence(1);
  start.session->starts = true;
  const BackendPtr first = place(start);
  EXPECT_EQ(place(of_sequence(1)), first);

  // Another sequence with the same id: round-robin takes the other backend.
  const BackendPtr second = place(start);

  EXPECT_NE(second, first);
  EXPECT_EQ(place(of_sequence(1)), second);
  EXPECT_EQ(stats().misses, 2u);
  EXPECT_EQ(stats().moves, 0u);
  EXPECT_EQ(stats().sessions, 1u);
}

TEST_F(PinnedSessions, TheStartOfASequenceWaitsForAnyBackend) {
  given(2, 1);
  Hint start = of_sequence(1);
  start.session->starts = true;
  const BackendPtr first = place(start);
  auto held = pool_->acquire(of_sequence(1)).take();
  auto other = pool_->acquire({}).take();
  ASSERT_TRUE(held && other);

  const BackendPtr second = other->backend();
  ASSERT_NE(second, first);

  auto waiting = pool_->acquire(start);
  ASSERT_FALSE(waiting.ready());
  other->release();

  ASSERT_TRUE(becomes_ready(waiting));
  auto lease = waiting.take();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->backend(), second);
  lease->release();
  EXPECT_EQ(place(of_sequence(1)), second);
}

TEST_F(PinnedSessions, DoNotBindOtherRequests) {
  given(2);
  pin(1);

  std::set<BackendPtr> used;
  for (int i = 0; i < 4; ++i) used.insert(place({}));
  EXPECT_EQ(used.size(), 2u);
  EXPECT_EQ(stats().sessions, 1u);
}

TEST_F(PinnedSessions, WaitForTheirBackendThoughAnotherIsFree) {
  given(2, 1);
  const BackendPtr pinned = place(of_session(1));
  ASSERT_TRUE(pinned->try_acquire(loop_.now()));

  auto waiting = pool_->acquire(of_session(1));
  EXPECT_FALSE(waiting.ready());
  EXPECT_NE(place({}), pinned);
  EXPECT_NE(place(of_session(2)), pinned);
  pinned->release();

  ASSERT_TRUE(becomes_ready(waiting));
  auto lease = waiting.take();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->backend(), pinned);
  EXPECT_EQ(state_->queue().waiting, 0u);
}

TEST_F(PinnedSessions, WaitNoLongerThanTheQueueAllows) {
  given(2, 1, {.timeout = 50ms});
  const BackendPtr pinned = place(of_session(1));
  ASSERT_TRUE(pinned->try_acquire(loop_.now()));

  auto waiting = pool_->acquire(of_session(1));
  ASSERT_TRUE(becomes_ready(waiting));

  auto lease = waiting.take();
  ASSERT_FALSE(lease);
  EXPECT_EQ(lease.error().fault, Fault::queue_timeout);
  pinned->release();
}

TEST_F(PinnedSessions, GoElsewhereIfTheirBackendGoesDownWhileTheyWait) {
  given(2, 1);
  const BackendPtr pinned = place(of_session(1));
  ASSERT_TRUE(pinned->try_acquire(loop_.now()));
  auto waiting = pool_->acquire(of_session(1));
  ASSERT_FALSE(waiting.ready());

  pinned->state().take_out(OutOfRotation::unhealthy);

  ASSERT_TRUE(becomes_ready(waiting));
  auto lease = waiting.take();
  ASSERT_TRUE(lease);
  EXPECT_NE(lease->backend(), pinned);
  EXPECT_EQ(stats().moves, 1u);
  pinned->release();
}

TEST_F(PinnedSessions, MoveFromABackendThatIsDownAndStayThere) {
  given(3);
  const BackendPtr first = place(of_session(1));
  first->state().take_out(OutOfRotation::unhealthy);

  const BackendPtr second = place(of_session(1));
  EXPECT_NE(second, first);
  first->put_back(OutOfRotation::unhealthy);

  for (int i = 0; i < 5; ++i) EXPECT_EQ(place(of_session(1)), second);
}

TEST_F(PinnedSessions, AreReleasedWhenTheirBackendGoesDown) {
  given(2);
  const auto backends = pin(10);
  const BackendPtr down = state_->backends()[0];

  down->state().take_out(OutOfRotation::unhealthy);
  state_->tick(loop_.now());
  EXPECT_EQ(stats().sessions, 5u);

  // One that returns has lost them, and each is placed anew.
  down->put_back(OutOfRotation::unhealthy);
  state_->tick(loop_.now());
  pin(10);
  EXPECT_EQ(stats().sessions, 10u);
  EXPECT_EQ(stats().moves, 0u);
}

TEST_F(PinnedSessions, StayAtABackendThatIsDrainedOrOnStandby) {
  given(2);
  for (const OutOfRotation reason : {OutOfRotation::draining, OutOfRotation::standby}) {
    const BackendPtr pinned = place(of_session(1));
    pinned->state().take_out(reason);
    // A tick ends the standby of a backend that is no standby backend.
    if (reason == OutOfRotation::draining) state_->tick(loop_.now());

    EXPECT_EQ(place(of_session(1)), pinned);
    for (int i = 0; i < 4; ++i) EXPECT_NE(place({}), pinned);
    pinned->put_back(reason);
  }
}

TEST_F(PinnedSessions, WaitForTheirDrainedBackend) {
  given(2, 1);
  const BackendPtr pinned = place(of_session(1));
  ASSERT_TRUE(pinned->try_acquire(loop_.now()));
  pinned->state().take_out(OutOfRotation::draining);

  auto waiting = pool_->acquire(of_session(1));
  ASSERT_FALSE(waiting.ready());
  pinned->release();

  ASSERT_TRUE(becomes_ready(waiting));
  auto lease = waiting.take();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->backend(), pinned);
}

TEST_F(PinnedSessions, MoveWhenTheirBackendHasFailedTheRequest) {
  given(3);
  const BackendPtr first = place(of_session(1));
  Hint retry = of_session(1);
  retry.excluded.add(first.get());

  const BackendPtr second = place(retry);

  EXPECT_NE(second, first);
  EXPECT_EQ(place(of_session(1)), second);
  EXPECT_EQ(stats().moves, 1u);
}

TEST_F(PinnedSessions, OfASequenceNeverSplit) {
  given(3);
  const BackendPtr first = place(of_sequence(1));
  Hint retry = of_sequence(1);
  retry.excluded.add(first.get());

  auto refused = pool_->acquire(retry).take();

  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, Fault::no_backend);
  EXPECT_EQ(place(of_sequence(1)), first);
}

TEST_F(PinnedSessions, OfASequenceBeginElsewhereIfTheFirstBackendFails) {
  given(3);
  auto task = pool_->acquire(of_sequence(1));
  auto lease = task.take();
  ASSERT_TRUE(lease);
  ASSERT_TRUE(lease->begins_session());
  Hint retry = of_sequence(1);
  retry.session->began_here = true;
  retry.excluded.add(lease->backend().get());

  const BackendPtr second = place(retry);

  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, lease->backend());
  EXPECT_EQ(place(of_sequence(1)), second);
}

TEST_F(PinnedSessions, MoveFromABackendThatCannotBeConnected) {
  given(3);
  const BackendPtr first = place(of_session(1));
  const BackendPtr other = place(of_sequence(2));
  first->state().connect_failed(loop_.now());
  other->state().connect_failed(loop_.now());

  EXPECT_NE(place(of_session(1)), first);
  EXPECT_EQ(place(of_sequence(2)), other);  // its state is there
  other->state().connect_failed(loop_.now() + 10min);
  other->state().connect_failed(loop_.now() + 20min);
  EXPECT_NE(place(of_sequence(2)), other);
}

TEST_F(PinnedSessions, SurviveAReload) {
  given(4);
  const auto before = pin(8);

  PoolSpec spec = state_->spec();
  spec.backends.erase(spec.backends.begin());
  spec.backends[1].config.weight = 5;
  spec.config.affinity->max_sessions = 500;
  const std::string removed = state_->backends()[0]->id();
  given(std::move(spec));
  state_->tick(loop_.now());

  EXPECT_EQ(stats().sessions, 6u);
  const auto after = pin(8);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i]->id() == removed) continue;
    EXPECT_EQ(after[i]->id(), before[i]->id());
  }
}

TEST_F(PinnedSessions, LeaveTheTableOfAnotherSizeThoughAnOldVersionServesRequests) {
  given(4);
  const BackendPtr before = place(of_session(1));
  const auto former = state_;
  Pool of_former(former, loop_, 1);
  PoolSpec spec = state_->spec();
  spec.config.affinity->max_sessions = 500;
  given(std::move(spec));

  std::weak_ptr<const void> memory = former->affinity()->take_former();

  EXPECT_TRUE(memory.expired());
  EXPECT_EQ(former->affinity()->take_former(), nullptr) << "it is released once";
  const BackendPtr later = place(of_session(2));
  EXPECT_EQ(of_former.acquire(of_session(2)).take()->backend(), later) << "they share the sessions";
  EXPECT_EQ(of_former.acquire(of_session(1)).take()->backend(), before);
  EXPECT_EQ(stats().sessions, 2u);
}

TEST_F(PinnedSessions, GiveTheirMemoryBackOnceNoVersionPinsAny) {
  given(4);
  place(of_session(1));
  const auto former = state_;
  Pool of_former(former, loop_, 1);
  PoolSpec spec = state_->spec();
  spec.config.affinity.reset();
  given(std::move(spec));

  former->affinity()->close();

  EXPECT_NE(former->affinity()->take_former(), nullptr);
  EXPECT_EQ(former->affinity()->stats().sessions, 0u);
  EXPECT_TRUE(of_former.acquire(of_session(1)).take()) << "requests of the old version go on";
}

Hint of_soft_session(std::uint64_t key, std::uint64_t parent = 0) {
  Hint hint = of_session(key);
  hint.session->is_soft = true;
  hint.session->parent = parent;
  return hint;
}

TEST_F(PinnedSessions, AreLearnedFromAnswersAndLostWithTheirBackend) {
  given(3);
  const BackendPtr knowing = state_->backends()[1];
  state_->affinity()->answer_pins(*knowing).pin(7, true, loop_.now());
  EXPECT_EQ(place(of_session(7)), knowing);

  knowing->state().take_out(OutOfRotation::unhealthy);
  state_->tick(loop_.now());

  auto refused = pool_->acquire(of_session(7)).take();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, Fault::session_lost);
  knowing->put_back(OutOfRotation::unhealthy);
  EXPECT_EQ(place(of_session(7)), knowing);
}

TEST_F(PinnedSessions, WhoseStateIsAtARemovedBackendAreLost) {
  given(3);
  state_->affinity()->answer_pins(*state_->backends()[0]).pin(7, true, loop_.now());
  PoolSpec spec = state_->spec();
  spec.backends.erase(spec.backends.begin());
  given(std::move(spec));
  state_->tick(loop_.now());

  auto refused = pool_->acquire(of_session(7)).take();

  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, Fault::session_lost);
}

TEST_F(PinnedSessions, ThatAnAnswerNamesWithoutStateGoElsewhere) {
  given(3);
  const BackendPtr first = state_->backends()[1];
  state_->affinity()->answer_pins(*first).pin(7, false, loop_.now());
  EXPECT_EQ(place(of_session(7)), first);
  first->state().take_out(OutOfRotation::unhealthy);

  const BackendPtr second = place(of_session(7));

  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
}

TEST_F(PinnedSessions, ContinueInAnotherProcess) {
  given(3);
  for (std::uint64_t key = 1; key < 7; ++key)
    state_->affinity()
        ->answer_pins(*state_->backends()[key % 3])
        .pin(key, key % 2 == 0, loop_.now());
  const auto saved = state_->affinity()->saved(loop_.now());
  const auto other = PoolState::build(state_->spec());
  other->activate();
  other->affinity()->restore(saved, loop_.now());
  Pool pool(other, loop_, 2);

  for (std::uint64_t key = 1; key < 7; ++key) {
    auto lease = pool.acquire(of_session(key)).take();
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->backend()->id(), state_->backends()[key % 3]->id()) << key;
  }
  EXPECT_EQ(saved.size(), 6u);
}

TEST_F(PinnedSessions, ThatNoRequestHasConfirmedContinueInAnotherProcessToo) {
  given(3);
  const BackendPtr first = place(of_session(1));
  const auto other = PoolState::build(state_->spec());
  other->activate();

  other->affinity()->restore(state_->affinity()->saved(loop_.now()), loop_.now());

  const auto saved = other->affinity()->saved(loop_.now());
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].tag, AffinityTable::tag_of(first->id()));
  EXPECT_FALSE(saved[0].confirmed);
}

TEST_F(PinnedSessions, SoftOnesStayWhileTheirBackendIsNotSaturated) {
  given(3);
  const BackendPtr first = place(of_soft_session(1));

  for (int i = 0; i < 9; ++i) EXPECT_EQ(place(of_soft_session(1)), first);

  EXPECT_EQ(stats().hits, 9u);
  EXPECT_EQ(stats().misses, 1u);
}

TEST_F(PinnedSessions, SoftOnesMoveFromABackendWithMoreThanItsShare) {
  given(3);
  const BackendPtr first = place(of_soft_session(1));
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(first->try_acquire(loop_.now()));

  BackendPtr second = place(of_soft_session(1));
  for (int i = 0; second == first && i < 3; ++i) second = place(of_soft_session(1));

  EXPECT_NE(second, first);
  EXPECT_EQ(place(of_soft_session(1)), second);
  for (int i = 0; i < 12; ++i) first->release();
  EXPECT_EQ(place(of_soft_session(1)), second);
}

TEST_F(PinnedSessions, SoftOnesDoNotWaitForAFullBackend) {
  given(2, 1);
  const BackendPtr first = place(of_soft_session(1));
  ASSERT_TRUE(first->try_acquire(loop_.now()));

  const BackendPtr second = place(of_soft_session(1));

  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  EXPECT_EQ(stats().moves, 1u);
  first->release();
}

TEST_F(PinnedSessions, SoftOnesLeaveADrainedBackend) {
  given(2);
  const BackendPtr first = place(of_soft_session(1));
  first->state().take_out(OutOfRotation::draining);

  EXPECT_NE(place(of_soft_session(1)), first);
}

TEST_F(PinnedSessions, AChildBeginsAtTheBackendOfItsParent) {
  given(4);
  const BackendPtr parent = place(of_soft_session(1));
  place({});

  for (std::uint64_t child = 10; child < 16; ++child)
    EXPECT_EQ(place(of_soft_session(child, 1)), parent) << child;
}

TEST_F(PinnedSessions, EndWithTheRequestThatSaysSo) {
  given(4);
  place(of_soft_session(1));
  Hint last = of_soft_session(1);
  last.session->ends = true;

  place(last);

  EXPECT_EQ(stats().sessions, 0u);
}

TEST_F(PinnedSessions, AreNoneInAPoolWithoutAffinity) {
  PoolSpec spec = some_pool(2, 0);
  spec.config.picker.name = "round-robin";
  given(std::move(spec));

  EXPECT_NE(place(of_session(1)), place(of_session(1)));
  EXPECT_EQ(state_->affinity(), nullptr);
}

}  // namespace
}  // namespace evenkeel::testing
