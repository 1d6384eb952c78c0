// How long a backend takes to begin its answers: an average that believes bad news at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// A moving average of the time to the first byte. It rises with every slow answer and falls with
/// time:
///
///   x > a:  a += (x - a) * rise
///   else:   a += (x - a) * max(fall, dt / (dt + memory))
///
/// After Finagle's and tower's Peak EWMA, which jump to the peak and forget over 10 s. Here a peak
/// counts a quarter: a long prompt makes one late first byte on a server that is well, a server in
/// trouble makes several. dt / (dt + memory) stands for 1 - e^(-dt / memory).
///
/// Of two answers that come at the same moment one may be forgotten: the average is three relaxed
/// atomics and no transaction. It is part of a cache line that every request writes anyway.
///
/// Thread: any.
class PeakEwma {
 public:
  static constexpr float rise = 0.25F;
  static constexpr float fall = 0.03F;  // where answers come in a stream: about the last 30
  static constexpr Duration decay_time = std::chrono::seconds(10);
  static constexpr std::uint32_t max_samples = 1u << 20;

  void record(Duration took, Instant now) {
    const auto sample = static_cast<float>(std::max(seconds_of(took), min_seconds));
    const std::uint32_t samples = samples_.load(std::memory_order_relaxed);
    const Duration::rep ticks = now.time_since_epoch().count();
    if (samples == 0) {
      seconds_.store(sample, std::memory_order_relaxed);
    } else {
      const float average = seconds_.load(std::memory_order_relaxed);
      const float gain = sample > average ? rise : fall_since(ticks);
      seconds_.store(average + (sample - average) * gain, std::memory_order_relaxed);
    }
    last_sample_.store(ticks, std::memory_order_relaxed);
    if (samples < max_samples) samples_.store(samples + 1, std::memory_order_relaxed);
  }

  /// An answer that says that the server cannot: however soon it comes, it counts as a late one.
  void record_failure(Duration took, Instant now) { record(std::max(took, failure_latency), now); }

  /// What was learnt does not hold any more: the server was away.
  void forget() { samples_.store(0, std::memory_order_relaxed); }

  /// Answers since it was new; 0: nothing is known.
  std::uint32_t samples() const { return samples_.load(std::memory_order_relaxed); }
  /// Above 0. REQUIRES: samples() > 0, or the value means nothing.
  double seconds() const { return static_cast<double>(seconds_.load(std::memory_order_relaxed)); }
  /// Since the last answer; never negative.
  Duration age(Instant now) const {
    const Duration::rep last_sample = last_sample_.load(std::memory_order_relaxed);
    return std::max(Duration(now.time_since_epoch().count() - last_sample), Duration::zero());
  }

 private:
  static constexpr double min_seconds = 1e-6;  // nothing is infinitely fast, nor divided by zero
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
