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

#include "balance/depth.h"
#include "balance/expected_latency.h"
#include "balance/sampled.h"

namespace evenkeel {
namespace {

class Headroom {
 public:
  explicit Headroom(const Candidates& candidates) : candidates_(candidates) {}

  double operator()(std::uint32_t index, Instant now) {
    const Load& load = candidates_.load(index);
    const SignalValues values = load.signals().values();
    double cost = expected_(load.pace(), now) * (depth_of(load, now) + 1) * newness(load) /
                  candidates_.weight(index);
    cost *= 1 + utilization_(values.gpu_utilization_ratio);
    cost *= cache_(dear(values.kv_cache_ratio));
    cost *= memory_(dear(memory_ratio(values)));
    // Only if all are left alone: rather a full one than one that cannot be connected.
    return load.avoided(now) ? cost * hopeless : cost;
  }

 private:
  static constexpr double tight = 0.15;
  static constexpr double dearest = 4;
  static constexpr double hopeless = 1e6;

  /// NaN of NaN.
  double dear(double ratio) const {
    if (std::isnan(ratio)) return ratio;
    if (candidates_.memory_guard() <= 0) return 1;
    const double knee = candidates_.memory_guard() - tight;
    const double share = std::max(0.0, ratio - knee) / tight;
    return 1 + dearest * share * share;
  }

  const Candidates& candidates_;
  ExpectedLatency expected_;
  Presumed utilization_{0.5};
  Presumed cache_{1};
  Presumed memory_{1};
};

}  // namespace

PickerMaker pickers::gpu(PickerSetup setup) {
  return sampled_picker_maker<Headroom>(std::move(setup));
}

}  // namespace evenkeel
