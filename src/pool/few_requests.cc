#include "evenkeel/pool/few_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "evenkeel/picker/queue_estimate.h"

namespace evenkeel {
namespace {

constexpr double few = 0.5;          // of an equal share
constexpr double much_more = 1.5;    // times the mean of the others
constexpr double much_less = 0.67;   // likewise
constexpr double max_compared = 16;  // others: the list of a large pool stays cheap
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// Compares a backend with others of its pool that are in rotation.
class Comparison {
 public:
  Comparison(const PoolState& pool, const Backend& backend, Instant now)
      : pool_(pool), backend_(backend), now_(now) {}

  std::string reason() const {
    const SharedBackend& shared = backend_.shared();
    if (shared.slots.limit() > 0 && shared.slots.in_flight() >= shared.slots.limit()) {
      return fmt::format("at its limit of {} in flight", shared.slots.limit());
    }
    const std::string_view picker = pool_.config().picker.name;
    std::string reason;
    if (picker != "round-robin" && picker != "expected-time") reason = of_weight();
    if (!reason.empty()) return reason;
    if (shared.failure_penalty(now_) >= few) return "it failed lately";
    if (picker == "least-latency") return of_latency();
    if (picker == "queue-depth") return of_queue();
    if (picker == "gpu") return of_gpu();
    if (picker == "least-connections") return of_duration();
    if (picker == "expected-time") return of_prediction();
    if (picker == "consistent-hash" || picker == "prefix-affinity")
      return "few requests hash to it";
    return pool_.affinity() != nullptr ? "sessions stay on the others" : "";
  }

 private:
  /// The mean over some of the others of what is known; NaN: nothing is.
  template <class Value>
  double mean_of_others(Value value) const {
    double sum = 0;
    double known = 0;
    for (const auto& other : pool_.backends()) {
      if (other.get() == &backend_ || !other->state().in_rotation()) continue;
      const double one = value(*other);
      if (std::isnan(one)) continue;
      sum += one;
      known += 1;
      if (known >= max_compared) break;
    }
    return known > 0 ? sum / known : unknown;
  }

  std::string of_weight() const {
    const auto weight = [](const Backend& each) {
      const double learned = each.findings().learned_weight();
      return learned > 0 ? learned : each.spec().config.weight;
    };
    const double own = weight(backend_);
    const double others = mean_of_others(weight);
    const char* const kind = backend_.findings().learned_weight() > 0 ? "learned weight" : "weight";
    return own <= much_less * others
               ? fmt::format("{} {:.3g}, the others have {:.3g}", kind, own, others)
               : std::string();
  }

  std::string of_latency() const {
    const auto latency = [](const Backend& each) {
      const PeakEwma& average = each.stats().latency();
      return average.samples() > 0 && average.seconds() > 0 ? average.seconds() : unknown;
    };
    return of_ratio("time to first token", latency);
  }

  std::string of_queue() const {
    const auto depth = [this](const Backend& each) {
      return static_cast<double>(estimated_queue_depth(each.shared(), now_));
    };
    const double own = depth(backend_);
    const double others = mean_of_others(depth);
    if (!(own >= much_more * others) || own < others + 2) return {};
    const LoadSample values = backend_.signals().values();
    if (values.waiting >= 1) return fmt::format("reported queue {:.0f}", values.waiting);
    return fmt::format("{:.0f} requests in its engine, the others have {:.0f}", own, others);
  }

  std::string of_gpu() const {
    const LoadSample values = backend_.signals().values();
    const double guard = pool_.config().picker.guard();
    constexpr double near = 0.1;
    if (guard > 0 && values.kv_cache_ratio >= guard - near) {
      return fmt::format("kv cache {:.0f} %", values.kv_cache_ratio * 100);
    }
    const double memory = values.gpu_memory_used_bytes / values.gpu_memory_total_bytes;
    if (guard > 0 && memory >= guard - near) {
      return fmt::format("GPU memory {:.0f} %", memory * 100);
    }
    const std::string reason = of_queue();
    return reason.empty() ? of_latency() : reason;
  }

  std::string of_prediction() const {
    const auto wait = [this](const Backend& each) {
      const auto forecast = pool_.scheduled()->forecast(each, now_);
      return forecast ? seconds_of(forecast->wait) : unknown;
    };
    constexpr double notable = 0.05;
    const double own = wait(backend_);
    if (own >= notable && own >= much_more * mean_of_others(wait)) {
      return fmt::format("predicted wait {:.2g} s", own);
    }
    const std::string reason = of_duration();
    return reason.empty() ? reason : "predicted slower";
  }

  /// Compares the time per token where there are streams, else that of the whole response.
  std::string of_duration() const {
    const auto median = [](const RecentLatency& latency) {
      return latency.median ? seconds_of(*latency.median) : unknown;
    };
    const std::string reason = of_ratio("time per token", [&](const Backend& each) {
      return median(each.stats().recent_summary(now_).per_token);
    });
    if (!reason.empty()) return reason;
    return of_ratio("time per request", [&](const Backend& each) {
      return median(each.stats().recent_summary(now_).total);
    });
  }

  template <class Value>
  std::string of_ratio(std::string_view text, Value value) const {
    const double ratio = value(backend_) / mean_of_others(value);
    return ratio >= much_more ? fmt::format("{} {:.2g}x the others'", text, ratio) : std::string();
  }

  const PoolState& pool_;
  const Backend& backend_;
  Instant now_;
};

}  // namespace

std::string describe_few_requests(const PoolState& pool, const Backend& backend, Instant now) {
  const float share = backend.findings().pick_share();
  if (share < 0 || share >= few) return {};
  const std::string reason = Comparison(pool, backend, now).reason();
  return reason.empty() ? reason : "few requests: " + reason;
}

}  // namespace evenkeel
