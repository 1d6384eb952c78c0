// When one source of metrics is read next, and how long what it said is worth something.
#pragma once

#include <array>
#include <cstdint>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/rng.h"

namespace evenkeel {

/// Arithmetic of one source. A reading costs its server about the time in which it answers: that
/// stays below a share of all time. A source that says nothing is asked less and less often.
class PollSchedule {
 public:
  static constexpr double max_duty_cycle = 0.03;  ///< of a server's time
  static constexpr Duration max_interval = std::chrono::seconds(10);
  static constexpr Duration max_retry_interval = std::chrono::seconds(5);
  /// What is known is good for this long, or for so many intervals where these are longer.
  static constexpr Duration min_ttl = std::chrono::seconds(2);
  static constexpr int ttl_intervals = 3;

  PollSchedule(Duration interval, std::uint64_t seed)
      : configured_interval_(interval), random_(seed) {}

  /// How long to wait before the first reading: anything up to an interval, so that many sources
  /// are not read at the same time.
  Duration initial_delay();
  /// How long to wait from one reading's beginning to the next: an interval, give or take a
  /// twentieth, or longer after failures.
  Duration next_delay();

  void on_success(Duration took);
  void on_failure() { ++failures_; }
  void set_interval(Duration interval) { configured_interval_ = interval; }

  /// As it is now, without failures.
  Duration interval() const;
  /// From the last answer until it is forgotten.
  Duration ttl() const;
  std::uint32_t consecutive_failures() const { return failures_; }

 private:
  Duration configured_interval_;
  Rng random_;
  /// A single slow answer says that the server was busy, three that it is slow.
  std::array<Duration, 3> response_times_{};
  std::uint32_t successes_ = 0;
  std::uint32_t failures_ = 0;  // since the last answer
};

}  // namespace evenkeel
