// All requests that the daemon has answered, whatever their pool and model.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "evenkeel/stats/fault_labels.h"
#include "evenkeel/stats/histogram.h"

namespace evenkeel {

class MetricsRegistry;

/// Counters since the daemon has started.
struct RequestTotals {
  std::uint64_t requests = 0;
  std::uint64_t output_tokens = 0;
  HistogramTotals first_token;
  std::array<std::uint64_t, fault_count> errors{};  ///< by `Fault`
};

/// Sums over all workers, pools and models. Thread: any.
RequestTotals read_request_totals(const MetricsRegistry& registry);

/// Returns how much a counter has grown; 0 where it was cleared meanwhile.
constexpr std::uint64_t increase(std::uint64_t before, std::uint64_t after) {
  return after > before ? after - before : 0;
}

/// Returns the quantile in seconds of what was counted between two totals, interpolated within its
/// bucket as Prometheus' histogram_quantile does; the last bound for what lies above. Nothing:
/// there was none.
std::optional<double> quantile_between(const HistogramTotals& before, const HistogramTotals& after,
                                       double share);

}  // namespace evenkeel
