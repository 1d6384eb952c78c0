// What was learned of a backend, in a form that outlives the process.
#pragma once

#include <cstdint>
#include <optional>

#include "evenkeel/backend/shared_backend.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

/// A backend's averages, learned weight and ejection. PoolState collects and restores it.
struct LearnedState {
  double latency_seconds = 0;         ///< as PeakEwma has it
  std::uint32_t latency_samples = 0;  ///< 0: nothing is known
  Duration latency_age{};             ///< since the last sample
  double weight = 0;                  ///< BackendFindings::learned_weight; 0: none yet
  double speed = 0;  ///< that the weight comes from, in responses per request-second; 0: unknown
  std::uint32_t ejections = 0;            ///< that are not forgotten yet
  std::optional<EjectionReason> ejected;  ///< nothing: it is not ejected
  Duration ejected_for{};                 ///< until it may be tried again

  /// True if nothing is known of the backend.
  bool empty() const { return *this == LearnedState{}; }
  bool operator==(const LearnedState&) const = default;
};

}  // namespace evenkeel
