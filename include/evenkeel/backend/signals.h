// The load that a backend's engine and GPUs reported last, for the pickers.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "evenkeel/backend/engine_state.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/load_sample.h"

namespace evenkeel {

/// The last sample and its age. Workers read while the control thread writes: a reader may see a
/// mix of two samples, but each value is whole.
///
/// Thread: `publish`, `forget` and `expire_report` one at a time, the rest any.
class Signals {
 public:
  /// `polled_at`: when the response arrived. `in_flight_at_poll`: this process's requests in flight
  /// on the backend when it was polled; queue_estimate.h corrects the counts by it.
  void publish(const LoadSample& values, Instant polled_at, std::uint32_t in_flight_at_poll) {
    running_.store(values.running, std::memory_order_relaxed);
    waiting_.store(values.waiting, std::memory_order_relaxed);
    kv_cache_ratio_.store(values.kv_cache_ratio, std::memory_order_relaxed);
    gpu_utilization_ratio_.store(values.gpu_utilization_ratio, std::memory_order_relaxed);
    gpu_memory_used_bytes_.store(values.gpu_memory_used_bytes, std::memory_order_relaxed);
    gpu_memory_total_bytes_.store(values.gpu_memory_total_bytes, std::memory_order_relaxed);
    in_flight_at_poll_.store(in_flight_at_poll, std::memory_order_relaxed);
    reported_at_.store(0, std::memory_order_relaxed);
    polled_at_.store(polled_at.time_since_epoch().count(), std::memory_order_release);
  }
  /// A response has carried a report of the engine's load, which may be newer than the last poll.
  /// What it leaves out stays: its counts replace those of the poll only together, since the two
  /// were taken at different times. `in_flight`: as `in_flight_at_poll`, now.
  void report(const LoadSample& report, Instant now, std::uint32_t in_flight);
  /// Forgets a report that nothing has followed for too long, where no poll does it.
  void expire_report(Instant now);
  /// Makes every value unknown: the last sample is too old. What the engine says of itself stays.
  void forget() {
    polled_at_.store(0, std::memory_order_relaxed);
    reported_at_.store(0, std::memory_order_relaxed);
    publish_unknown();
  }

  /// All unknown before the first poll.
  LoadSample values() const {
    return {.running = running_.load(std::memory_order_relaxed),
            .waiting = waiting_.load(std::memory_order_relaxed),
            .kv_cache_ratio = kv_cache_ratio_.load(std::memory_order_relaxed),
            .gpu_utilization_ratio = gpu_utilization_ratio_.load(std::memory_order_relaxed),
            .gpu_memory_used_bytes = gpu_memory_used_bytes_.load(std::memory_order_relaxed),
            .gpu_memory_total_bytes = gpu_memory_total_bytes_.load(std::memory_order_relaxed)};
  }
  std::uint32_t in_flight_at_poll() const {
    return in_flight_at_poll_.load(std::memory_order_relaxed);
  }
  /// Age of the sample; empty when nothing is known.
  std::optional<Duration> age(Instant now) const {
    const Duration::rep polled_at = polled_at_.load(std::memory_order_acquire);
    if (polled_at == 0) return std::nullopt;
    return Duration(now.time_since_epoch().count() - polled_at);
  }

  /// What the engine says of itself, which does not age.
  EngineState& engine() { return engine_; }
  const EngineState& engine() const { return engine_; }
  double kv_capacity_tokens() const { return engine_.kv_tokens(); }
  double step_tokens() const { return engine_.step_tokens(); }

 private:
  void publish_expired();
  void publish_unknown() {
    for (std::atomic<double>* value :
         {&running_, &waiting_, &kv_cache_ratio_, &gpu_utilization_ratio_, &gpu_memory_used_bytes_,
          &gpu_memory_total_bytes_}) {
      value->store(LoadSample::unknown, std::memory_order_relaxed);
    }
  }

  alignas(64) std::atomic<Duration::rep> polled_at_{0};  // of the steady clock; 0: no sample
  std::atomic<Duration::rep> reported_at_{0};            // 0: not since the last poll
  std::atomic<std::uint32_t> in_flight_at_poll_{0};
  std::atomic<double> running_{LoadSample::unknown};
  std::atomic<double> waiting_{LoadSample::unknown};
  std::atomic<double> kv_cache_ratio_{LoadSample::unknown};
  std::atomic<double> gpu_utilization_ratio_{LoadSample::unknown};
  std::atomic<double> gpu_memory_used_bytes_{LoadSample::unknown};
  std::atomic<double> gpu_memory_total_bytes_{LoadSample::unknown};
  EngineState engine_;
};

}  // namespace evenkeel
