// What this process has learned of its backends, and what it takes over from another.
#pragma once

#include "evenkeel/base/clock.h"
#include "evenkeel/state/saved_state.h"
#include "evenkeel/upstream/backend_status.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

/// Older averages, health states and ejections are not believed.
inline constexpr Duration max_observed_age = std::chrono::minutes(10);

/// What is known of each backend; without those of which nothing is. Thread: the control thread.
SavedState::ObservedBackends observe_backends(const PoolSet& pool_set,
                                              const MonitorSnapshot& monitored, Instant now);

/// `observed` as it is after `passed`: averages are older, ejections shorter. Empty if it is too
/// old.
SavedState::ObservedBackends aged(SavedState::ObservedBackends observed, Duration passed);

/// Continues with it, for the backends that the pool set has. REQUIRES: the set is active and its
/// backends have been checked. Thread: the control thread.
void restore_backends(const SavedState::ObservedBackends& observed, const PoolSet& pool_set,
                      Instant now);

}  // namespace evenkeel
