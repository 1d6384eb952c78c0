// Decides from the results of checks when a backend goes up or down.
#pragma once

#include <cstdint>

#include "evenkeel/config/config.h"
#include "evenkeel/upstream/health_record.h"

namespace evenkeel {

/// Counts consecutive results.
///
/// Until a backend has passed once, each result decides alone, so that a start takes one passed
/// check. After that, `fall` failures in a row take it down and `rise` successes in a row bring it
/// up. A backend that falls again soon after it rose needs twice as many successes the next time,
/// then four times as many, so that one that flaps spends less time in rotation.
class RiseFallCounter {
 public:
  /// `state`: unchecked if nothing is known; up if it has served so far.
  RiseFallCounter(HealthState state, const HealthConfig& config)
      : state_(state), seen_up_(state == HealthState::up), fall_(config.fall), rise_(config.rise) {}

  /// `loading`: the server says that it is still loading.
  HealthState record_result(CheckResult result, bool loading);
  HealthState state() const { return state_; }
  /// True if the last results contradict the state: the next check matters more than usual.
  bool in_transition() const { return in_a_row_ > 0; }
  /// Successes after a rise that make a later fall no flap: a minute at the default interval.
  static constexpr std::uint32_t steady_passes = 30;
  static constexpr std::uint32_t max_flaps = 2;
  /// Applies other thresholds from now on.
  void update(const HealthConfig& config) {
    fall_ = config.fall;
    rise_ = config.rise;
  }

 private:
  HealthState state_;
  bool seen_up_;
  std::uint32_t fall_;
  std::uint32_t rise_;
  std::uint32_t in_a_row_ = 0;  // results that contradict the state
  std::uint32_t flaps_ = 0;     // falls soon after a rise, in a row
  std::uint32_t passes_since_rise_ = steady_passes;
};

}  // namespace evenkeel
