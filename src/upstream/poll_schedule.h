// When to poll one source of metrics next, and how long its values stay valid.
#pragma once

#include <array>
#include <cstdint>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/rng.h"

namespace evenkeel {

/// Arithmetic for one source. A poll costs the server about its response time, which stays below a
/// share of all time. A source that fails is polled less and less often.
class PollSchedule {
 public:
  static constexpr double max_duty_cycle = 0.03;  ///< share of a server's time
  static constexpr Duration max_interval = std::chrono::seconds(10);
  static constexpr Duration max_retry_interval = std::chrono::seconds(5);
  /// Values stay valid for this long, or for this many intervals if that is longer.
  static constexpr Duration min_ttl = std::chrono::seconds(2);
  static constexpr int ttl_intervals = 3;

  PollSchedule(Duration interval, std::uint64_t seed)
      : configured_interval_(interval), random_(seed) {}

  /// Delay before the first poll: random within an interval, so that many sources are not polled
  /// at the same time.
  Duration initial_delay();
  /// Time from the start of a poll to the start of the next: an interval with 5 % jitter, or
  /// longer after failures.
  Duration next_delay();

  void on_success(Duration took);
  void on_failure() { ++failures_; }
  void set_interval(Duration interval) { configured_interval_ = interval; }

  /// The current interval, regardless of failures.
  Duration interval() const;
  /// How long values stay valid after a poll.
  Duration ttl() const;

 private:
  Duration configured_interval_;
  Rng random_;
  /// One slow response means a busy server, three mean a slow one: the fastest of three counts.
  std::array<Duration, 3> response_times_{};
  std::uint32_t successes_ = 0;
  std::uint32_t failures_ = 0;  // since the last success
};

}  // namespace evenkeel
