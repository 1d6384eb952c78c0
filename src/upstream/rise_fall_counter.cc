#include "upstream/rise_fall_counter.h"

namespace evenkeel {

HealthState RiseFallCounter::record_result(CheckResult result, bool loading) {
  const bool passed = result == CheckResult::passed;
  if (!seen_up_) {
    // Nobody listens, or it says "not ready": so begins every server that loads a model.
    const bool begins = result == CheckResult::refused || result == CheckResult::not_ready;
    seen_up_ = passed;
    return state_ = passed ? HealthState::up : begins ? HealthState::starting : HealthState::down;
  }
  const bool was_up = state_ == HealthState::up;
  in_a_row_ = passed == was_up ? 0 : in_a_row_ + 1;
  const HealthState out = loading ? HealthState::starting : HealthState::down;
  if (in_a_row_ >= (was_up ? fall_ : rise_)) {
    in_a_row_ = 0;
    state_ = was_up ? out : HealthState::up;
  } else if (!was_up && !passed) {
    state_ = out;  // it was gone, and comes back
  }
  return state_;
}

}  // namespace evenkeel
