// What the schedulers of this process have learned, and what they take over from another.
#pragma once

#include <cstddef>

#include "evenkeel/base/clock.h"
#include "evenkeel/upstream/pool_set.h"
#include "server/saved_state.h"

namespace evenkeel {

/// How many blocks of prefix indexes are saved, of all pools together: about 23 MB of text.
inline constexpr std::size_t max_saved_prefixes = 2u << 20;

/// Adds it to the state. Blocks for up to two seconds if `max_prefixes` is not 0. Thread: any.
void add_schedulers(SavedState& state, const PoolSet& pool_set, std::size_t max_prefixes,
                    Instant now);

/// The state is that of `passed` ago.
void age_schedulers(SavedState& state, Duration passed);

/// Takes it out of the state, for the pools and backends that the pool set has. REQUIRES: as
/// PoolState::restore. Thread: the control thread.
void restore_schedulers(SavedState state, const PoolSet& pool_set, Instant now);
/// Once the first checks have ended: what does not serve may return as another server.
void forget_caches_of_absent(const PoolSet& pool_set);

}  // namespace evenkeel
