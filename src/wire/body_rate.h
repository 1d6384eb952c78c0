// The minimum rate at which a request body must arrive.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

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

  /// What to tell a client whose body ended a wait: at its deadline, or at that of a single wait.
  static std::string detail(bool too_slow) {
    return too_slow ? "the request body arrived too slowly (limits.body_rate)"
                    : "the request body did not arrive in time (timeouts.body)";
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
  BodyWait(const Loop& loop, BodyRate& rate, RequestTimings& timings)
      : loop_(loop), rate_(rate), timings_(timings), began_(loop.now()) {}
  BodyWait(const BodyWait&) = delete;
  ~BodyWait() {
    const Duration took = loop_.now() - began_;
    rate_.waited(took);
    if (timings_.head_sent == Instant{}) timings_.awaited_body += took;
  }

 private:
  const Loop& loop_;
  BodyRate& rate_;
  RequestTimings& timings_;
  Instant began_;
};

}  // namespace evenkeel
