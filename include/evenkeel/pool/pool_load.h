// How much of the capacity of its backends a pool uses.
#pragma once

#include <cstdint>

#include "evenkeel/base/clock.h"
#include "evenkeel/pool/pool.h"

namespace evenkeel {

/// The load of the backends that serve.
struct PoolLoad {
  std::uint32_t in_service = 0;
  /// Sum over them, 1 for each at capacity, with what waits for their slots; NaN: not known.
  double used = 0;
};

/// True if the backend gets requests and can be connected, as far as known.
bool in_service(const Backend& backend, Instant now);

/// `at_queue`: what a backend whose engine has a long queue counts as. `waiting`: requests that
/// wait for a slot. Thread: any.
PoolLoad load_of(const PoolState& pool, double waiting, double at_queue, Instant now);

}  // namespace evenkeel
