// A server that answers errors much faster than the others serve: what it costs every picker.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string_view>

#include "picker/every_picker.h"
#include "pool/outlier_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

/// Three servers behind one picker, 40 requests a second. Each answers after 400 ms; the first may
/// answer 500 after 2 ms.
class FastFailer : public ::testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    PoolSpec spec = some_pool(3, 0);
    spec.config.picker.name = GetParam();
    state_ = PoolState::build(std::move(spec));
    state_->activate();
    picker_ = state_->new_picker(7);
  }
  const Backend& backend(std::size_t index) { return *state_->backends()[index]; }

  void send(int requests) {
    for (int i = 0; i < requests; ++i) {
      if (i % 4 == 0) state_->tick(now_);
      finish();
      const BackendPtr* chosen = picker_->pick({.now = now_});
      ASSERT_NE(chosen, nullptr);
      ASSERT_TRUE((*chosen)->try_acquire(now_));
      const bool fails = is_bad_ && chosen->get() == &backend(0);
      running_.push_back({chosen->get(), now_ + (fails ? Duration(2ms) : Duration(400ms)), fails});
      now_ += 25ms;
    }
  }

  void finish() {
    for (auto each = running_.begin(); each != running_.end();) {
      if (each->ends > now_) {
        ++each;
        continue;
      }
      each->backend->release();
      SharedBackend& shared = each->backend->shared();
      if (each->fails) {
        ++failures_;
        shared.stats.record_failure(2ms, each->ends);
      } else {
        shared.stats.record_first_byte(400ms, each->ends);
      }
      each->backend->record_outcome(each->fails ? failed : succeeded, each->ends);
      each = running_.erase(each);
    }
  }

  struct Running {
    const Backend* backend;
    Instant ends;
    bool fails;
  };
  std::shared_ptr<PoolState> state_;
  std::unique_ptr<Picker> picker_;
  std::deque<Running> running_;
  Instant now_ = noon;
  bool is_bad_ = true;
  int failures_ = 0;
};

INSTANTIATE_TEST_SUITE_P(, FastFailer, every_picker(), picker_test_name);

TEST_P(FastFailer, LosesFiveRequestsAtMostWhereItIsProbed) {
  backend(0).state().set_probed(true);

  send(1100);
  EXPECT_TRUE(backend(0).state().is_out(OutOfRotation::ejected));
  EXPECT_LE(failures_, 5);
  const int before = failures_;
  is_bad_ = false;
  backend(0).probe_succeeded(now_);

  const std::uint64_t picks = backend(0).slots().picks_total();
  send(400);
  EXPECT_EQ(failures_, before);
  EXPECT_GT(backend(0).slots().picks_total(), picks + 60) << "it has its share again";
}

TEST_P(FastFailer, IsEjectedWithinTwoSeconds) {
  send(80);

  EXPECT_TRUE(backend(0).state().is_out(OutOfRotation::ejected));
}

TEST_P(FastFailer, WithoutProbesLosesFiveRequestsOfTenThousandAtMost) {
  send(10'000);

  // 250 s: three or so before its ejection, and a trial after 2 s and after 30 s.
  EXPECT_LE(failures_, 5);
}

TEST_P(FastFailer, WithoutProbesReturnsByATrialOnceItIsWell) {
  send(40);
  is_bad_ = false;
  const std::uint64_t picks = backend(0).slots().picks_total();

  send(400);

  EXPECT_LE(failures_, 5);
  EXPECT_GT(backend(0).slots().picks_total(), picks + 60);
}

}  // namespace
}  // namespace evenkeel::testing
