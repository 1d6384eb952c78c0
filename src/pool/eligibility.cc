#include "pool/eligibility.h"

#include <algorithm>

#include "evenkeel/backend/gpu_memory_guard.h"
#include "evenkeel/pool/affinity.h"

namespace evenkeel {
namespace {

/// True if the backend is in rotation, on standby or ejected: a pool that loses its other backends
/// ignores ejections.
bool usable_or_standby(const BackendState& state) {
  return state.other_reasons(OutOfRotation::standby, OutOfRotation::ejected) == 0;
}

/// True if the pool may be given a server for the request.
bool awaits_first_server(const PoolState& pool, const Hint& hint) {
  if (!pool.starts_from_zero() || !hint.excluded.empty()) return false;
  const auto is_drained = [](const BackendPtr& backend) {
    return backend->state().is_out(OutOfRotation::draining);
  };
  return pool.backends().empty() || !std::ranges::all_of(pool.backends(), is_drained);
}

}  // namespace

bool has_in_rotation(const Backends& backends, const ExcludedBackends& excluded) {
  return std::ranges::any_of(backends, [&](const BackendPtr& backend) {
    return backend->state().in_rotation() && !excluded.contains(backend.get());
  });
}

bool may_become_available(const PoolState& pool, const Hint& hint) {
  if (hint.subset != 0) return has_in_rotation(pool.backend_set().of(hint.subset), hint.excluded);
  const auto may_use = [&](const BackendPtr& backend) {
    return usable_or_standby(backend->state()) && !hint.excluded.contains(backend.get());
  };
  return std::ranges::any_of(pool.backends(), may_use) || awaits_first_server(pool, hint);
}

bool pin_holds(const Hint& hint, Instant now) {
  const bool has_state = hint.session && hint.session->has_state;
  return hint.pinned == nullptr || Affinity::holds(*hint.pinned, has_state, now);
}

bool has_available(const PoolState& pool, const Hint& hint, Instant now) {
  return std::ranges::any_of(pool.backend_set().of(hint.subset), [&](const BackendPtr& backend) {
    return backend->state().in_rotation() && !deprioritized(pool, backend->shared(), now) &&
           !hint.excluded.contains(backend.get());
  });
}

bool deprioritized(const PoolState& pool, const SharedBackend& shared, Instant now) {
  return shared.state.avoided(now) || over_memory_guard(shared, pool.config().picker.guard());
}

}  // namespace evenkeel
