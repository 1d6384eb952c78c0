// gpu: what a GPU says of itself, beside what is seen of it. The least
//
//   latency * (depth + 1) * newness / weight * (1 + utilization) * dear(KV cache) * dear(VRAM)
//
//   dear(r) = 1 + 4 * (max(0, r - knee) / (guard - knee))^2,   knee = guard - 0.15
//
// latency and newness as in least-latency, depth as in queue-depth. Utilization counts little: it
// says "busy" of one stream and of a hundred. Memory costs nothing while there is plenty and five
// times as much at the guard; beyond the guard a backend is left alone while another stands
// (memory_guard.h), as one that cannot be connected. The KV cache is the memory that fills with
// load; VRAM is what other processes take, or an engine that grows.
//
// Nothing here is 0 for being unknown: who does not tell is presumed to be as the others (or
// neutral, where nobody tells). Ties at random; sampling: sampled.h.
//
// Source: the signals are those of the Gateway API inference extension and llm-d (queue, KV cache;
// 0.8 of it is where their detector begins to call it tight). They add up weighted scores; a
// product of prices is used here, since a sum stays tempting when one of its parts is hopeless.
#include <cmath>

#include "balance/expected_latency.h"
#include "balance/queue_estimate.h"
#include "balance/sampled.h"

namespace evenkeel {
namespace {

class GpuCost {
 public:
  explicit GpuCost(const Candidates& candidates) : candidates_(candidates) {}

  double operator()(std::uint32_t index, Instant now) {
    const Load& load = candidates_.load(index);
    const LoadSample values = load.signals().values();
    double cost = expected_(load.latency(), now) * (estimated_queue_depth(load, now) + 1) *
                  warmup_penalty(load) / candidates_.weight(index);
    cost *= 1 + utilization_(values.gpu_utilization_ratio);
    cost *= kv_cache_(memory_penalty(values.kv_cache_ratio));
    cost *= vram_(memory_penalty(memory_ratio(values)));
    // Only if all are left alone: rather a full one than one that cannot be connected.
    return load.in_backoff(now) ? cost * backoff_penalty : cost;
  }

 private:
  static constexpr double knee_width = 0.15;
  static constexpr double max_penalty = 4;
  static constexpr double backoff_penalty = 1e6;

  /// NaN of NaN.
  double memory_penalty(double ratio) const {
    if (std::isnan(ratio)) return ratio;
    if (candidates_.memory_guard() <= 0) return 1;
    const double knee = candidates_.memory_guard() - knee_width;
    const double share = std::max(0.0, ratio - knee) / knee_width;
    return 1 + max_penalty * share * share;
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
