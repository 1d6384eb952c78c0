// Ramps up backends that return or join.
#pragma once

#include "evenkeel/base/clock.h"
#include "evenkeel/pool/pool.h"
#include "pool/backend_records.h"

namespace evenkeel {

/// Limits a backend that serves again to a growing number of requests in flight:
///
///   limit = max(1, fair * (0.1 + 0.9 * t / time)),   fair = in flight on the pool / backends
///
/// The time is `slow_start`, but no longer than the backend was avoided, if it was in rotation.
/// Not its weight: a server with a cold cache suffers from requests at a time, whatever the picker.
/// No ramp while no other backend serves without one, and none for those that come up with the
/// pool.
///
/// Source: HAProxy's slowstart, which ramps maxconn too; Envoy's least share of 10 %.
/// Thread: the control thread's.
class SlowStart {
 public:
  void tick(const PoolState& pool, Instant now);

 private:
  struct Entry {
    bool serves = false;
    bool was_out = true;  // of rotation, since it served last
    Instant left{};       // when it served last
    Instant began{};      // of the ramp; default: none
    Duration time{};      // of the ramp
  };

  static void limit(const Backend& backend, std::uint32_t slots, bool ramps);

  BackendRecords<Entry> entries_;
  Instant pool_began_{};  // when its first backend came into rotation
};

}  // namespace evenkeel
