// Monotonic time. Every duration and deadline in evenkeel is measured with it.
#pragma once

#include <chrono>
#include <limits>

namespace evenkeel {

using Clock = std::chrono::steady_clock;
using Duration = Clock::duration;
using Instant = Clock::time_point;

/// A deadline that never comes.
inline constexpr Instant never = Instant::max();

/// Seconds as a floating-point number, for metrics and logs.
inline double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

/// Seconds since 1970: not for durations, since this clock may be set.
inline double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace evenkeel
