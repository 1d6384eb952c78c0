// The minimum rate at which a request body must arrive.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"
#include "evenkeel/wire/frontend.h"

namespace evenkeel {

/// Time for which a body may be waited for. It begins with 10 s and grows with every byte that
/// arrives, up to the timeout of a single wait. Only waits for the client count, so that a client
/// that is held back by a slow backend loses nothing.
class BodyRate {
 public:
  explicit BodyRate(const ListenerConfig& config)
      : bytes_per_second_(config.limits.body_rate_bytes),
        most_(std::max<Duration>(initial, config.timeouts.body)) {}

  /// When a wait that begins now has lasted too long.
  Instant deadline(Instant now) const { return bytes_per_second_ == 0 ? never : now + left_; }
  /// A wait has ended.
  void waited(Duration duration) { left_ -= std::min(left_, duration); }
  void received(std::size_t bytes) {
    if (bytes_per_second_ == 0) return;
    const auto seconds = static_cast<double>(bytes) / static_cast<double>(bytes_per_second_);
    const auto gained = std::chrono::duration<double>(
        std::min(seconds, std::chrono::duration<double>(most_).count()));
    left_ = std::min(most_, left_ + std::chrono::duration_cast<Duration>(gained));
  }

 private:
  static constexpr Duration initial = std::chrono::seconds(10);

  std::uint64_t bytes_per_second_;
  Duration most_;
  Duration left_ = initial;
};

/// A wait for more of a request body. Its end counts it: towards the rate, and where no backend has
/// the request yet, as time that the client took.
class BodyWait {
 public:
  /// `is_limited`: the client may not pause. `latest`: when the wait ends in any case.
  BodyWait(const Loop& loop, const ListenerConfig& config, BodyRate& rate, RequestInfo& info,
           bool is_limited, Instant latest = never)
      : loop_(loop), rate_(rate), timings_(info.timings), began_(loop.now()), stalled_(latest) {
    if (!is_limited) return;
    stalled_ = std::min(latest, began_ + config.timeouts.body);
    slow_ = rate.deadline(began_);
  }
  BodyWait(const BodyWait&) = delete;
  BodyWait& operator=(const BodyWait&) = delete;
  ~BodyWait() { end(); }

  Instant deadline() const { return std::min(stalled_, slow_); }
  void end() {
    if (std::exchange(ended_, true)) return;
    const Duration took = loop_.now() - began_;
    rate_.waited(took);
    if (timings_.head_sent == Instant{}) timings_.awaited_body += took;
  }
  /// What to tell a client whose body did not come by the deadline.
  const char* detail() const {
    return slow_ < stalled_ ? "the request body arrived too slowly (limits.body_rate)"
                            : "the request body did not arrive in time (timeouts.body)";
  }

 private:
  const Loop& loop_;
  BodyRate& rate_;
  RequestTimings& timings_;
  const Instant began_;
  Instant stalled_;
  Instant slow_ = never;  // when it is too long for the rate
  bool ended_ = false;
};

}  // namespace evenkeel
