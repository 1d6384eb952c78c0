// gpu: combines measured latency and queue depth with the load that GPUs report. Picks the lowest
//
//   latency * (depth + failures + 1) * warmup / weight
//     * (1 + utilization) * penalty(KV cache) * penalty(VRAM)
//
//   penalty(r) = 1 + 4 * (max(0, r - knee) / (guard - knee))^2,   knee = guard - 0.15
//
// latency in seconds and warmup as in least-latency, which also says when a backend costs nothing;
// depth and failures in requests as in queue-depth; the rest
// are ratios, 0..1. Utilization has little influence: a GPU is "busy" with one stream as with a
// hundred. The penalty for memory is 1 while memory is plentiful and 5 at the guard; above the
// guard a backend is avoided while another is available (memory_guard.h). The KV cache fills with
// load; VRAM fills with other processes, or with an engine that grows.
//
// An unknown value never counts as 0: it counts as the mean of the known ones, or as neutral while
// no backend reports it. Ties at random; sampling: sampled.h.
//
// Source: the signals are those of the Gateway API inference extension and llm-d (queue, KV cache;
// their detector calls a cache saturated at 0.8). They add weighted scores. This picker multiplies
// costs, because a sum stays low although one of its terms means that the backend is overloaded.
#include <cmath>

#include "evenkeel/picker/queue_estimate.h"
#include "picker/expected_latency.h"
#include "picker/sampled.h"

namespace evenkeel {
namespace {

class GpuCost {
 public:
  explicit GpuCost(const Candidates& candidates) : candidates_(candidates) {}

  double operator()(std::uint32_t index, Instant now) {
    const SharedBackend& shared = candidates_.shared(index);
    const LoadSample values = shared.signals.values();
    const double depth = estimated_queue_depth(shared, now) + shared.failure_penalty(now);
    double cost =
        expected_(shared, now) * (depth + 1) * warmup_penalty(shared) / candidates_.weight(index);
    cost *= 1 + utilization_(values.gpu_utilization_ratio);
    cost *= kv_cache_(memory_penalty(values.kv_cache_ratio));
    cost *= vram_(memory_penalty(memory_ratio(values)));
    // Only when every backend is deprioritized: prefers a full one to one that cannot be connected.
    return shared.state.avoided(now) ? cost * backoff_penalty : cost;
  }

 private:
  static constexpr double knee_width = 0.15;
  static constexpr double penalty_gain = 4;  // at the guard; more above it
  static constexpr double backoff_penalty = 1e6;

  /// NaN for NaN.
  double memory_penalty(double ratio) const {
    if (std::isnan(ratio)) return ratio;
    if (candidates_.memory_guard() <= 0) return 1;
    const double knee = candidates_.memory_guard() - knee_width;
    const double share = std::max(0.0, ratio - knee) / knee_width;
    return 1 + penalty_gain * share * share;
  }

  const Candidates& candidates_;
  ExpectedLatency expected_;
  MeanFallback utilization_{0.5};
  MeanFallback kv_cache_{1};
  MeanFallback vram_{1};
};

}  // namespace

PickerFactory pickers::gpu(PickerOptions options) {
  return sampled_picker_factory<GpuCost>(std::move(options));
}

}  // namespace evenkeel
