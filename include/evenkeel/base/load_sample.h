// The load of one inference server as it reports it.
#pragma once

#include <cmath>
#include <limits>

namespace evenkeel {

/// One reading of a server's load, from its engine's metrics and its GPUs'. NaN: unknown, which is
/// never the same as 0.
struct LoadSample {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  double running = unknown;                 ///< requests in the batch, over all models and ranks
  double waiting = unknown;                 ///< requests in the engine's queue, over the same
  double kv_cache_ratio = unknown;          ///< in use, 0..1, of the rank with the least room
  double gpu_utilization_ratio = unknown;   ///< 0..1, mean over the server's GPUs
  double gpu_memory_used_bytes = unknown;   ///< sum over the server's GPUs
  double gpu_memory_total_bytes = unknown;  ///< sum over the server's GPUs

  /// True if at least one value is known.
  bool any() const {
    return !std::isnan(running) || !std::isnan(waiting) || !std::isnan(kv_cache_ratio) ||
           !std::isnan(gpu_utilization_ratio) || !std::isnan(gpu_memory_used_bytes) ||
           !std::isnan(gpu_memory_total_bytes);
  }
};

}  // namespace evenkeel
