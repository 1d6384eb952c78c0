// When a pool's spares come in, and when they go.
//
//   load of a backend = max(in_flight / max_in_flight, KV cache ratio, enter * waiting / 5)
//   needed(target)    = ceil((sum of loads + requests in line / max_in_flight) / target)
//
// of what is known; a backend of which nothing is known is taken to carry the mean of the others.
// First bytes that take twice as long as they did lately count as `enter` too: a jump shows
// there before engines have queues that are worth the name, and where nothing else is known.
//
// Spares come in while the backends in service are fewer than needed(enter), for each of the others
// that is down, and when nobody else stands. They go when more than needed(leave) have been in
// service for `dwell`; if they came for the load, the pool must also carry less than leave / enter
// of the most that it carried while it needed them: where engines tell of a queue only, an empty
// one does not yet mean that the load has gone.
//
// Sources: ceil(current * metric / target) and the window that looks back for the largest answer
// before it shrinks are those of Kubernetes' HorizontalPodAutoscaler; a queue of 5 or a KV cache of
// 0.8 as the mark of saturation are those of llm-d's utilization detector.
#pragma once

#include <cstdint>
#include <optional>

#include "evenkeel/balance/pool.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

/// What is seen of one backend. NaN: unknown.
struct BackendUtilization {
  double in_flight_ratio;
  double kv_cache_ratio;
  double waiting;
};

/// The load of a backend; NaN when nothing is known.
double load_of(const BackendUtilization& sample, double enter);

/// How much slower a pool has become, of late.
class LatencyRise {
 public:
  /// Now over calm: the time to the first byte, over the least that it was lately, which is
  /// forgotten by a hundredth a second. NaN: unknown.
  double tick(double first_byte_seconds, Instant now);

 private:
  std::optional<Instant> last_tick_;
  double baseline_seconds_ = 0;  // seconds; 0: not known yet
};

/// A slowdown at which spares are due.
inline constexpr double significant_latency_rise = 2;

/// A pool at one moment.
struct PoolDemand {
  double load = 0;                ///< sum over those in service, in backends
  std::uint32_t active = 0;       ///< in service, spares not counted
  std::uint32_t down = 0;         ///< of the others, not able to serve
  std::uint32_t spares = 0;       ///< that could serve, in service or not
  std::uint32_t in_service = 0;   ///< spares among them
  std::uint64_t outstanding = 0;  ///< requests in flight and in line
  bool has_queue = false;         ///< somebody waits for a place
};

/// How many spares are to be in service. A state machine that is turned about ten times a second.
class SpareController {
 public:
  std::uint32_t tick(const PoolDemand& sample, const SparesSpec& spec, Instant now);

 private:
  /// A load that lasts for so long is no blip: a poll comes every quarter of a second. Requests in
  /// line and servers that are down are no blips in any case.
  static constexpr Duration debounce = std::chrono::milliseconds(300);

  bool is_urgent(const PoolDemand& sample) const {
    return sample.has_queue || sample.down > target_ || sample.active == 0;
  }

  std::uint32_t target_ = 0;
  std::optional<Instant> shortage_since_;  // of backends
  std::optional<Instant> surplus_since_;   // more in service than needed
  std::uint32_t max_needed_ = 0;           // since then
  std::uint64_t peak_outstanding_ = 0;     // while the load needed them all
};

}  // namespace evenkeel
