// Which backends of its pool a request may go to, now or later.
#pragma once

#include "evenkeel/base/clock.h"
#include "evenkeel/picker/hint.h"
#include "evenkeel/pool/pool.h"

namespace evenkeel {

/// True if one of these that the request has not tried is in rotation.
bool has_in_rotation(const Backends& backends, const ExcludedBackends& excluded);

/// True if a backend that the request has not tried can take it now, when it has a free slot, when
/// the pool activates its standby backends, or when its first server is up (starts_from_zero). In a
/// subset: if one is in rotation.
bool may_become_available(const PoolState& pool, const Hint& hint);

/// True if the backend that `hint` is pinned to keeps its sessions, or there is none.
bool pin_holds(const Hint& hint, Instant now);

/// True if a backend that the request has not tried is in rotation and not deprioritized.
bool has_available(const PoolState& pool, const Hint& hint, Instant now);

/// True if the backend is in back-off or over the memory guard: avoided while another is there.
bool deprioritized(const PoolState& pool, const SharedBackend& shared, Instant now);

}  // namespace evenkeel
