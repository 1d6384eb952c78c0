// A pool whose backends fail, for the tests of ejection.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

#include "pool/some_pool.h"

namespace evenkeel::testing {

inline constexpr AttemptResult failed{.outcome = AttemptOutcome::failed, .status = 500};
inline constexpr AttemptResult succeeded{};

/// A pool some of whose backends fail.
class OutlierPool : public ::testing::Test {
 protected:
  void given(std::size_t backends, OutlierConfig outlier = {}, bool retries_trials = false) {
    PoolSpec spec = some_pool(backends, 0);
    spec.config.outlier = outlier;
    spec.retries_trials = retries_trials;
    state_ = PoolState::build(std::move(spec));
    state_->activate();
    state_->tick(now_);
  }
  const Backend& backend(std::size_t index) { return *state_->backends()[index]; }
  SharedBackend& shared(std::size_t index) { return backend(index).shared(); }
  bool is_ejected(std::size_t index) { return shared(index).state.is_out(OutOfRotation::ejected); }
  Duration ejected_for(std::size_t index) {
    const BackendState::Details details = shared(index).state.details();
    return details.until - details.since;
  }
  void fail(std::size_t index, int times = 5) {
    for (int i = 0; i < times; ++i) backend(index).record_outcome(failed, now_);
  }
  void pass(Duration time) {
    now_ += time;
    state_->tick(now_);
  }
  std::size_t ejected() {
    std::size_t count = 0;
    for (std::size_t i = 0; i < state_->backends().size(); ++i) count += is_ejected(i);
    return count;
  }

  Instant now_ = noon;
  std::shared_ptr<PoolState> state_;
};

}  // namespace evenkeel::testing
