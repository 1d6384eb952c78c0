// How much is read of a request that was answered before its end.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "evenkeel/base/clock.h"
#include "evenkeel/config/config.h"

namespace evenkeel {

/// The bounds of what is read and discarded of such a request, so that a client that still sends
/// sees its answer.
class Linger {
 public:
  /// `timed_out`: the answer is a 408. A client that sent too slowly must not hold its connection
  /// by going on so.
  Linger(const ListenerConfig& config, Instant now, bool timed_out)
      : left_bytes_(config.limits.linger_bytes),
        end_(now + (timed_out ? std::min<Duration>(config.timeouts.linger, after_timeout)
                              : Duration(config.timeouts.linger))) {}

  /// When a wait for more that begins now is too long. `draining`: the process ends, which must not
  /// be held up.
  Instant deadline(Instant now, bool draining) {
    if (draining) end_ = std::min(end_, now + in_drain);
    return std::min(end_, now + max_pause);
  }
  void discarded(std::size_t bytes) { left_bytes_ -= std::min<std::uint64_t>(left_bytes_, bytes); }
  bool is_over(Instant now) const { return left_bytes_ == 0 || now >= end_; }

 private:
  static constexpr Duration max_pause = std::chrono::seconds(5);  // as in nginx
  static constexpr Duration in_drain = std::chrono::seconds(1);
  static constexpr Duration after_timeout = std::chrono::seconds(1);

  std::uint64_t left_bytes_;
  Instant end_;
};

}  // namespace evenkeel
