// What the schedulers and sessions of this process have learned, and what they take over from
// another.
#pragma once

#include <cstddef>

#include "evenkeel/base/clock.h"
#include "evenkeel/state/saved_state.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

/// How many blocks of prefix indexes are saved, of all pools together: about 17 MB.
inline constexpr std::size_t max_saved_prefixes = 2u << 20;

/// How many sessions of each pool are saved, confirmed ones first, then those last used: about 20
/// MB.
inline constexpr std::size_t max_saved_sessions = 1u << 20;

/// Adds it to the state, with the sessions if `max_prefixes` is not 0; then it blocks for up to two
/// seconds. Thread: any.
void add_schedulers(SavedState& state, const PoolSet& pool_set, std::size_t max_prefixes,
                    Instant now);

/// The state is that of `passed` ago.
void age_schedulers(SavedState& state, Duration passed);
void restore_sessions(const SavedState& state, const PoolSet& pool_set, Instant now);

/// Takes it out of the state, for the pools and backends that the pool set has. REQUIRES: as
/// ScheduledPool::restore. Thread: the control thread.
void restore_schedulers(SavedState state, const PoolSet& pool_set, Instant now);
/// Forgets the caches of what does not serve once the first checks have ended: that may return as
/// another server.
void forget_caches_of_absent(const PoolSet& pool_set);

}  // namespace evenkeel
