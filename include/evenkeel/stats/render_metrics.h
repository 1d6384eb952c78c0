// The page at /metrics: every sheet summed, what the process knows of itself, and what other rooms
// tell. docs/metrics.md describes each family.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// The states that a backend may be in, in the order of export.
inline constexpr std::string_view backend_states[] = {"up",      "down",    "starting", "draining",
                                                      "ejected", "standby", "disabled"};

/// What a backend's engine and GPU said when they were polled last. NaN: unknown.
struct PolledSnapshot {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  double age_seconds = unknown;
  double running = unknown;
  double waiting = unknown;
  double kv_cache_ratio = unknown;
  double gpu_utilization_ratio = unknown;
  double gpu_memory_used_bytes = unknown;
  double gpu_memory_total_bytes = unknown;
};

/// What is known of one backend when somebody asks.
struct BackendSnapshot {
  std::string pool;
  std::string backend;
  std::string_view state;  ///< one of backend_states
  bool up = false;         ///< it may be given requests
  std::uint64_t in_flight = 0;
  std::uint64_t picks = 0;
  std::array<std::uint64_t, fault_count> errors{};  ///< failed attempts, by fault
  BackendTotals totals;                             ///< Sheets::backend_totals
  /// Health checks by result, where there are any: also the results that have not been seen.
  std::vector<std::pair<std::string_view, std::uint64_t>> checks;
  PolledSnapshot polled;
};

/// What the sheets do not hold.
struct MetricsSnapshot {
  std::vector<BackendSnapshot> backends;
  Duration loop_lag{};  ///< longest turn of any worker's event loop since the last reading
  std::uint64_t access_log_dropped = 0;
  bool config_reload_ok = true;  ///< the last reload was accepted
  std::chrono::system_clock::time_point
      config_loaded{};  ///< when the running one was; epoch: never
};

/// Tells its readings. Thread: the one that renders.
class Collector {
 public:
  virtual ~Collector() = default;
  virtual MetricsSnapshot collect() = 0;
};

inline constexpr std::string_view metrics_content_type = "text/plain; version=0.0.4; charset=utf-8";

/// The page in Prometheus text format 0.0.4. Series that are known from configuration are there
/// with 0 before anything happened. Thread: any but a worker's (it takes milliseconds).
std::string render_metrics(const MetricsRegistry& metrics_registry, Collector& collector,
                           std::string_view version);

}  // namespace evenkeel
