// A moving average of latency that reacts faster to slow responses than to fast ones.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// A moving average `a` of the time to the first byte. It rises with each slow response `x` and
/// falls with time; dt is the time since the previous response:
///
///   x > a:  a += (x - a) * rise
///   else:   a += (x - a) * max(fall, dt / (dt + decay_time))
///
/// Source: the Peak EWMA of Finagle and tower, which jumps to the peak and decays over 10 s. Here a
/// peak moves the average by a quarter: a long prompt causes one late first byte on a healthy
/// backend, a backend in trouble causes several. dt / (dt + decay_time) approximates
/// 1 - e^(-dt / decay_time).
///
/// Of two simultaneous samples one may be lost: the average is three relaxed atomics, not a
/// transaction. They share a cache line that every request writes anyway.
///
/// Thread: any.
class PeakEwma {
 public:
  static constexpr float rise = 0.25F;
  static constexpr float fall = 0.03F;  // at a steady rate: the mean of about 30 responses
  static constexpr Duration decay_time = std::chrono::seconds(10);
  static constexpr std::uint32_t max_samples = 1u << 20;

  void record(Duration took, Instant now) {
    const auto sample = static_cast<float>(std::max(seconds_of(took), min_seconds));
    const std::uint32_t samples = samples_.load(std::memory_order_relaxed);
    const Duration::rep ticks = now.time_since_epoch().count();
    if (samples == 0 || seconds() == 0) {
      seconds_.store(sample, std::memory_order_relaxed);
    } else {
      const float average = seconds_.load(std::memory_order_relaxed);
      const float gain = sample > average ? rise : fall_since(ticks);
      seconds_.store(average + (sample - average) * gain, std::memory_order_relaxed);
    }
    last_sample_.store(ticks, std::memory_order_relaxed);
    if (samples < max_samples) samples_.store(samples + 1, std::memory_order_relaxed);
  }

  /// A response that says nothing of the backend's speed. It only shows that there was one.
  void record_neutral(Instant now) {
    if (samples() != 0) return;
    seconds_.store(0, std::memory_order_relaxed);
    last_sample_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
    samples_.store(1, std::memory_order_relaxed);
  }
  /// A response that reports a failure counts as a slow one, however early it comes. It never
  /// lowers the average, nor does it let the average grow old.
  void record_failure(Duration took, Instant now) {
    record_at_least(std::max(took, failure_latency), now);
    last_sample_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  /// A response that did not come within `took`. It can only raise the average; before the first
  /// response it counts from one second on.
  void record_at_least(Duration took, Instant now) {
    const bool slow =
        samples() == 0 || seconds() == 0 ? took >= failure_latency : seconds_of(took) > seconds();
    if (slow) record(took, now);
  }

  /// Continues with what another process has learned. `last_sample`: when it had the last one.
  void restore(double seconds, std::uint32_t samples, Instant last_sample) {
    seconds_.store(static_cast<float>(std::max(seconds, 0.0)), std::memory_order_relaxed);
    last_sample_.store(last_sample.time_since_epoch().count(), std::memory_order_relaxed);
    samples_.store(std::min(samples, max_samples), std::memory_order_relaxed);
  }
  /// Discards everything learned.
  void forget() { samples_.store(0, std::memory_order_relaxed); }

  /// Samples since the start or the last `forget`, at most max_samples; 0: nothing is known.
  std::uint32_t samples() const { return samples_.load(std::memory_order_relaxed); }
  /// The average; 0: no response said anything of it. REQUIRES: samples() > 0.
  double seconds() const { return static_cast<double>(seconds_.load(std::memory_order_relaxed)); }
  /// Time since the last sample; never negative.
  Duration age(Instant now) const {
    const Duration::rep last_sample = last_sample_.load(std::memory_order_relaxed);
    return std::max(Duration(now.time_since_epoch().count() - last_sample), Duration::zero());
  }

 private:
  static constexpr double min_seconds =
      1e-6;  // no backend is infinitely fast; avoids division by zero
  static constexpr Duration failure_latency = std::chrono::seconds(1);

  float fall_since(Duration::rep ticks) const {
    const Duration::rep last_sample = last_sample_.load(std::memory_order_relaxed);
    const auto passed = static_cast<float>(std::max<Duration::rep>(ticks - last_sample, 0));
    return std::max(fall, passed / (passed + static_cast<float>(decay_time.count())));
  }

  std::atomic<Duration::rep> last_sample_{0};  // of the steady clock
  std::atomic<float> seconds_{0};
  std::atomic<std::uint32_t> samples_{0};
};

}  // namespace evenkeel
