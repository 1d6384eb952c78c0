#include "evenkeel/pool/pool_load.h"

#include <cmath>

#include "pool/standby_controller.h"

namespace evenkeel {
namespace {

BackendUtilization utilization_of(const Backend& backend) {
  const SharedBackend& shared = backend.shared();
  const LoadSample values = shared.signals.values();
  const double limit = backend.spec().max_in_flight;
  return {.in_flight_ratio = limit > 0 ? shared.slots.in_flight() / limit : LoadSample::unknown,
          .kv_cache_ratio = values.kv_cache_ratio,
          .waiting = values.waiting};
}

}  // namespace

bool in_service(const Backend& backend, Instant now) {
  return backend.state().in_rotation() && !backend.state().unreachable(now);
}

/// A backend of which nothing is known counts as the mean of the others.
PoolLoad load_of(const PoolState& pool, double waiting, double at_queue, Instant now) {
  PoolLoad load;
  double known = 0;
  double slots = 0;
  for (const BackendPtr& backend : pool.backends()) {
    if (!in_service(*backend, now)) continue;
    load.in_service += 1;
    slots += backend->spec().max_in_flight;
    const double used = load_of(utilization_of(*backend), at_queue);
    if (std::isnan(used)) continue;
    load.used += used;
    known += 1;
  }
  load.used = known > 0 ? load.used * load.in_service / known : LoadSample::unknown;
  if (slots > 0) load.used += waiting * load.in_service / slots;
  return load;
}

}  // namespace evenkeel
