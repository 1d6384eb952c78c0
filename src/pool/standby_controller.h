// Decides when a pool's standby backends enter rotation and when they leave it.
//
//   load of a backend = max(in_flight / max_in_flight, KV cache ratio, enter * waiting / 5)
//   needed(target)    = ceil((sum of loads + queued requests / max_in_flight) / target)
//
// load is in units of one backend's capacity, over the values that are known; a backend without any
// counts as the mean of the others. A time to the first byte of twice its recent minimum counts as
// `enter` too: a jump in load shows there before engines have long queues, and where no other value
// is known.
//
// Standby backends enter while fewer backends than needed(enter) are in service, for each regular
// backend that is down, and when no other backend is available. They leave after more than
// needed(leave) have been in service for `dwell`. Those that entered because of load also wait
// until the pool has less than leave / enter of the highest load during that time: if engines
// report only a queue, an empty queue does not yet mean that the load is gone.
//
// Sources: ceil(current * metric / target), and a window that keeps the largest result before it
// scales down, are the Kubernetes HorizontalPodAutoscaler's. A queue of 5 and a KV cache of 0.8 as
// signs of saturation are those of llm-d's utilization detector.
#pragma once

#include <cstdint>
#include <optional>

#include "evenkeel/base/clock.h"
#include "evenkeel/pool/pool.h"

namespace evenkeel {

/// Use of one backend's capacity. NaN: unknown.
struct BackendUtilization {
  double in_flight_ratio;  ///< of its slots, 0..1
  double kv_cache_ratio;   ///< 0..1
  double waiting;          ///< requests in the engine's queue
};

/// The load of a backend, 1 at capacity and at most 2; NaN if nothing is known.
double load_of(const BackendUtilization& sample, double enter);

/// How much slower a pool has become.
class LatencyRise {
 public:
  /// The time to the first byte over its recent minimum; 1: as fast as ever. The minimum grows by 1
  /// % a second, so that it adapts. NaN if `first_byte_seconds` is.
  double tick(double first_byte_seconds, Instant now);

 private:
  std::optional<Instant> last_tick_;
  double baseline_seconds_ = 0;  // 0: not known yet
};

/// A rise from which standby backends enter.
inline constexpr double significant_latency_rise = 2;

/// The state of a pool that decides how many standby backends it needs.
struct PoolDemand {
  double load = 0;                ///< sum over the backends in service, 1 per backend at capacity
  std::uint32_t active = 0;       ///< regular backends in service
  std::uint32_t down = 0;         ///< regular backends that cannot serve
  std::uint32_t standby = 0;      ///< standby backends that can serve, in service or not
  std::uint32_t in_service = 0;   ///< backends in service, standby ones included
  std::uint64_t outstanding = 0;  ///< requests in flight and queued
  bool has_queue = false;         ///< requests wait for a slot
};

/// Decides how many standby backends are in service. REQUIRES: `tick` is called about ten times a
/// second.
class StandbyController {
 public:
  /// The number of standby backends that should be in service from now on.
  std::uint32_t tick(const PoolDemand& sample, const StandbyConfig& spec, Instant now);

 private:
  /// How long a load must last before standby backends enter; polls come every 250 ms. Queued
  /// requests and backends that are down need no delay.
  static constexpr Duration debounce = std::chrono::milliseconds(300);

  bool is_urgent(const PoolDemand& sample) const {
    return sample.has_queue || sample.down > target_ || sample.active == 0;
  }

  std::uint32_t target_ = 0;
  std::optional<Instant> shortage_since_;  // fewer standby backends in service than needed
  std::optional<Instant> surplus_since_;   // more standby backends in service than needed
  std::uint32_t max_needed_ = 0;           // since surplus_since_
  std::uint64_t peak_outstanding_ = 0;     // while the load needed every standby backend in service
};

}  // namespace evenkeel
