#include "upstream/rise_fall_counter.h"

#include <algorithm>

namespace evenkeel {

HealthState RiseFallCounter::record_result(CheckResult result, bool loading) {
  const bool passed = result == CheckResult::passed;
  if (!seen_up_) {
    // A server that loads its model does not listen yet, or says "not ready".
    const bool begins = result == CheckResult::refused || result == CheckResult::not_ready;
    seen_up_ = passed;
    return state_ = passed ? HealthState::up : begins ? HealthState::starting : HealthState::down;
  }
  const bool was_up = state_ == HealthState::up;
  in_a_row_ = passed == was_up ? 0 : in_a_row_ + 1;
  const HealthState out = loading ? HealthState::starting : HealthState::down;
  if (was_up && passed) ++passes_since_rise_;
  if (in_a_row_ >= (was_up ? fall_ : rise_ << flaps_)) {
    in_a_row_ = 0;
    state_ = was_up ? out : HealthState::up;
    if (was_up) {
      flaps_ = passes_since_rise_ < steady_passes ? std::min(flaps_ + 1, max_flaps) : 0;
    } else {
      passes_since_rise_ = 0;
    }
  } else if (!was_up && !passed) {
    state_ = out;  // it was down, and is starting again
  }
  return state_;
}

}  // namespace evenkeel
