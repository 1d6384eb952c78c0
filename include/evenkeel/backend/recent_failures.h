// The failures that a backend had lately, as a penalty for pickers.
#pragma once

#include <algorithm>
#include <atomic>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Failures, in requests: a picker counts each as if it were still in flight, fading linearly to
/// nothing within 20 s. Otherwise a backend that fails now and then, and at once, would look less
/// loaded than its peers and get more requests. (One that fails every time is in back-off.)
///
/// Of two simultaneous failures one may be lost. Thread: any.
class RecentFailures {
 public:
  static constexpr Duration fade_time = std::chrono::seconds(20);
  static constexpr float max_value = 4096;

  void record(Instant now) {
    value_.store(std::min(static_cast<float>(value(now)) + 1, max_value),
                 std::memory_order_relaxed);
    failed_at_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  /// Discards everything: the backend was out of rotation and may have changed.
  void forget() { value_.store(0, std::memory_order_relaxed); }

  /// The penalty, in requests; 0 without failures in the last 20 s.
  double value(Instant now) const {
    const float value = value_.load(std::memory_order_relaxed);
    if (value == 0) [[likely]]
      return 0;
    const Duration::rep failed_at = failed_at_.load(std::memory_order_relaxed);
    const auto age = static_cast<double>(now.time_since_epoch().count() - failed_at);
    const double left = 1 - age / static_cast<double>(fade_time.count());
    return static_cast<double>(value) * std::clamp(left, 0.0, 1.0);
  }

 private:
  std::atomic<Duration::rep> failed_at_{0};  // of the steady clock
  std::atomic<float> value_{0};
};

}  // namespace evenkeel
