// Backends that answer nothing while others do.
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "evenkeel/pool/pool.h"
#include "picker/every_picker.h"
#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

/// Three backends and 40 requests a second. Each is answered after `time_`, but those of the
/// first backend are not while it hangs.
class HungServer : public ::testing::Test {
 protected:
  void given(std::string picker, bool notices = true) {
    PoolSpec spec = some_pool(3, 0);
    spec.config.picker.name = std::move(picker);
    spec.notices_silence = notices;
    state_ = PoolState::build(std::move(spec), state_.get());
    state_->activate();
    picker_ = state_->new_picker(7);
  }
  const Backend& backend(std::size_t index) { return *state_->backends()[index]; }
  SharedBackend& shared(std::size_t index) { return backend(index).shared(); }

  void send(int requests) {
    for (int i = 0; i < requests; ++i) {
      if (i % 4 == 0) state_->tick(now_);
      answer();
      const BackendPtr* chosen = picker_->pick({.now = now_});
      ASSERT_NE(chosen, nullptr);
      ASSERT_TRUE((*chosen)->try_acquire(now_));
      running_.push_back({chosen->get(), now_});
      now_ += 25ms;
    }
  }
  /// Then all have answered.
  void send_and_rest() {
    send(200);
    now_ += 1s;
    answer();
    state_->tick(now_);
  }
  void send_to_others(int requests) {
    for (int i = 0; i < requests; ++i) {
      const Backend& other = backend(1 + static_cast<std::size_t>(i) % 2);
      ASSERT_TRUE(other.try_acquire(now_));
      end({&other, now_});
      now_ += 25ms;
      state_->tick(now_);
    }
  }
  void answer() {
    std::erase_if(running_, [&](const Running& each) {
      const bool hangs = hangs_ && each.backend == &backend(0);
      if (hangs || now_ - each.began < time_) return false;
      end(each);
      return true;
    });
  }
  /// Clients of the hung server leave.
  void leave() {
    std::erase_if(running_, [&](const Running& each) {
      if (each.backend != &backend(0)) return false;
      each.backend->stats().record_no_first_byte(now_ - each.began, now_);
      each.backend->release();
      return true;
    });
  }

  struct Running {
    const Backend* backend;
    Instant began;
  };

  void end(const Running& each) {
    SharedBackend& shared = each.backend->shared();
    shared.stats.record_first_byte(now_ - each.began, now_);
    shared.stats.record_served(now_ - each.began, now_);
    each.backend->record_outcome({}, now_);
    each.backend->release();
  }

  std::shared_ptr<PoolState> state_;
  std::unique_ptr<Picker> picker_;
  std::deque<Running> running_;
  Instant now_ = noon;
  Duration time_ = 100ms;
  bool hangs_ = false;
};

class Silence : public HungServer, public ::testing::WithParamInterface<std::string_view> {};

INSTANTIATE_TEST_SUITE_P(, Silence, every_picker(), picker_test_name);

TEST_P(Silence, OfAHungServerIsNoticedAndCostsFewRequests) {
  given(std::string(GetParam()));
  send(200);
  hangs_ = true;

  send(100);
  const std::uint64_t picks = shared(0).slots.picks_total();
  for (int minute = 0; minute < 10; ++minute) {
    send(6 * 40);
    leave();
  }

  // After 2, 4, 8 and 16 s, then every 30 s.
  EXPECT_LE(shared(0).slots.picks_total() - picks, 6u);
}

TEST_P(Silence, EndsWithTheFirstAnswer) {
  given(std::string(GetParam()));
  send(200);
  hangs_ = true;
  send(40 * 20);
  hangs_ = false;

  answer();
  send(4);

  EXPECT_NE(shared(0).state.why(), Avoidance::silent);
  EXPECT_TRUE(shared(0).state.serving());
}

TEST_P(Silence, IsNotThatOfAServerWhosePoolIsSlow) {
  given(std::string(GetParam()));
  time_ = 6s;

  send(40 * 60);

  for (std::size_t each = 0; each < 3; ++each)
    EXPECT_NE(shared(each).state.why(), Avoidance::silent) << each;
}

TEST_F(HungServer, IsSilentOnlyWhileOthersAnswer) {
  given("round-robin");
  send(200);
  time_ = 1h;

  send(40 * 60);

  for (std::size_t each = 0; each < 3; ++each)
    EXPECT_NE(shared(each).state.why(), Avoidance::silent) << each;
}

TEST_F(HungServer, IsNotSilentWhileItsClientsHoldBackTheirBodies) {
  given("round-robin");
  send_and_rest();
  for (int paused = 0; paused < 2; ++paused) {
    ASSERT_TRUE(backend(0).try_acquire(now_));
    shared(0).slots.awaiting_clients().add();
  }

  send_to_others(40 * 20);
  EXPECT_NE(shared(0).state.why(), Avoidance::silent);

  for (int sent = 0; sent < 2; ++sent) shared(0).slots.awaiting_clients().remove();
  send_to_others(40 * 20);
  EXPECT_EQ(shared(0).state.why(), Avoidance::silent);
}

TEST_F(HungServer, IsNoticedIfItsRequestsCameInTheTickOfItsLastAnswer) {
  given("round-robin");
  send_and_rest();
  for (int sent = 0; sent < 3; ++sent) ASSERT_TRUE(backend(0).try_acquire(now_));
  end({&backend(0), now_});

  send_to_others(40 * 20);

  EXPECT_EQ(shared(0).state.why(), Avoidance::silent);
}

TEST_F(HungServer, IsNotThatWithRequestsOfOldWhoseServerHasAnsweredSince) {
  given("round-robin");
  send_and_rest();
  for (int sent = 0; sent < 3; ++sent) ASSERT_TRUE(backend(0).try_acquire(now_));
  send_to_others(10);
  end({&backend(0), now_});

  send_to_others(40 * 20);

  EXPECT_NE(shared(0).state.why(), Avoidance::silent);
}

TEST_F(HungServer, IsLeftToHealthChecksWhereTheyFindIt) {
  given("round-robin", false);
  send(200);
  hangs_ = true;

  send(40 * 60);

  EXPECT_NE(shared(0).state.why(), Avoidance::silent);
}

TEST_F(HungServer, IsNoLongerSilentWhenAReloadAddsHealthChecks) {
  given("round-robin");
  send(200);
  hangs_ = true;
  send(400);
  ASSERT_EQ(shared(0).state.why(), Avoidance::silent);

  given("round-robin", false);
  state_->tick(now_);

  EXPECT_NE(shared(0).state.why(), Avoidance::silent);
}

TEST_F(HungServer, StaysSilentAcrossAReload) {
  given("round-robin");
  send(200);
  hangs_ = true;
  send(400);
  ASSERT_EQ(shared(0).state.why(), Avoidance::silent);

  given("least-connections");
  state_->tick(now_);

  EXPECT_EQ(shared(0).state.why(), Avoidance::silent);
}

}  // namespace
}  // namespace evenkeel::testing
