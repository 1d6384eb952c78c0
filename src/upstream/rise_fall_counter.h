// When results of checks make a backend go up or down: arithmetic.
#pragma once

#include <cstdint>

#include "evenkeel/upstream/health_checker.h"

namespace evenkeel {

/// Counts results in a row.
///
/// Until a backend was seen ready for the first time each result decides by itself, so that a start
/// takes one good answer and not several. After that, `fall` failures in a row take it out and
/// `rise` successes in a row bring it back.
class RiseFallCounter {
 public:
  /// `state`: unchecked where nothing is known; up where it has served so far.
  RiseFallCounter(HealthState state, const HealthConfig& config)
      : state_(state), seen_up_(state == HealthState::up), fall_(config.fall), rise_(config.rise) {}

  /// `loading`: the server says that it is on its way.
  HealthState record_result(CheckResult result, bool loading);
  HealthState state() const { return state_; }
  /// The results in a row so far speak against the state: one more look is worth more than usual.
  bool in_transition() const { return in_a_row_ > 0; }
  /// Other thresholds from now on.
  void update(const HealthConfig& config) {
    fall_ = config.fall;
    rise_ = config.rise;
  }

 private:
  HealthState state_;
  bool seen_up_;
  std::uint32_t fall_;
  std::uint32_t rise_;
  std::uint32_t in_a_row_ = 0;  // results against the state
};

}  // namespace evenkeel
