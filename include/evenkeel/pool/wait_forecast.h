// When a pool that refuses a request will probably have room for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Learns how fast a pool completes requests, and tells from that how long a queue takes.
///
/// Thread: `tick` the control thread's, the others any.
class WaitForecast {
 public:
  static constexpr Duration min_wait = std::chrono::milliseconds(100);
  static constexpr Duration max_wait = std::chrono::seconds(60);
  static constexpr Duration unknown_wait = std::chrono::seconds(1);

  /// `completed`: requests since the pool began; fewer than before if backends were removed.
  void tick(std::uint64_t completed, Instant now) {
    const Duration passed = now - sampled_at_;
    if (sampled_at_ != Instant{} && passed < sample_period) return;
    if (sampled_at_ != Instant{} && completed >= completed_) {
      const double seconds = std::chrono::duration<double>(passed).count();
      const double rate = static_cast<double>(completed - completed_) / seconds;
      const double before = rate_.load(std::memory_order_relaxed);
      const double weight = before < 0 ? 1 : 1 - std::exp(-seconds / memory_seconds);
      rate_.store(std::max(before, 0.0) + (rate - std::max(before, 0.0)) * weight,
                  std::memory_order_relaxed);
    }
    sampled_at_ = now;
    completed_ = completed;
  }

  /// The next tick counts other requests: no rate follows from its difference to the last.
  void forget_sample() { sampled_at_ = {}; }

  /// The time in which the pool completes this many requests. Not known where it has completed next
  /// to none, since it was idle.
  Duration wait_for(std::uint64_t requests) const {
    const double rate = rate_.load(std::memory_order_relaxed);
    if (rate * std::chrono::duration<double>(max_wait).count() < 1) return unknown_wait;
    const double seconds = static_cast<double>(requests) / rate;
    if (seconds >= std::chrono::duration<double>(max_wait).count()) return max_wait;
    return std::max(min_wait,
                    std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
  }

 private:
  static constexpr Duration sample_period = std::chrono::milliseconds(500);
  static constexpr double memory_seconds = 10;

  std::atomic<double> rate_{-1};  // requests a second; below 0: not known yet
  Instant sampled_at_{};
  std::uint64_t completed_ = 0;
};

}  // namespace evenkeel
