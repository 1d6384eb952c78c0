// When one source of metrics is read next, and how long what it said is worth something.
#pragma once

#include <array>
#include <cstdint>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/rng.h"

namespace evenkeel {

/// Arithmetic of one source. A reading costs its server about the time in which it answers: that
/// stays below a share of all time. A source that says nothing is asked less and less often.
class PollRhythm {
 public:
  static constexpr double largest_share = 0.03;  ///< of a server's time
  static constexpr Duration longest_interval = std::chrono::seconds(10);
  static constexpr Duration longest_retry = std::chrono::seconds(5);
  /// What is known is good for this long, or for so many intervals where these are longer.
  static constexpr Duration least_memory = std::chrono::seconds(2);
  static constexpr int remembered_intervals = 3;

  PollRhythm(Duration interval, std::uint64_t seed) : wanted_(interval), random_(seed) {}

  /// How long to wait before the first reading: anything up to an interval, so that many sources
  /// are not read at the same time.
  Duration phase();
  /// How long to wait from one reading's beginning to the next: an interval, give or take a
  /// twentieth, or longer after failures.
  Duration pause();

  void answered(Duration took);
  void failed() { ++failures_; }
  void want(Duration interval) { wanted_ = interval; }

  /// As it is now, without failures.
  Duration interval() const;
  /// From the last answer until it is forgotten.
  Duration memory() const;
  std::uint32_t failures_in_a_row() const { return failures_; }

 private:
  Duration wanted_;
  Rng random_;
  /// A single slow answer says that the server was busy, three that it is slow.
  std::array<Duration, 3> took_{};
  std::uint32_t answers_ = 0;
  std::uint32_t failures_ = 0;  // since the last answer
};

}  // namespace evenkeel
