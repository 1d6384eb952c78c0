// How long a backend may send nothing, which is shorter while it is suspected to be dead, and how
// long it has to bear a client that sends nothing.
#pragma once

#include <algorithm>
#include <chrono>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// A backend that ends a request in the middle of its upload has waited for the client if it had
/// all that had come for at least this long.
constexpr Duration min_upload_pause = std::chrono::milliseconds(100);
/// The same holds if the backend had waited for at least this long in all, and most of the time.
constexpr Duration min_slow_upload = std::chrono::milliseconds(500);
/// A backend that breaks a response has waited for the client if the reader of the response
/// held it up for at least this long.
constexpr Duration min_reader_pause = std::chrono::milliseconds(100);

/// True if a backend that had all that had come of an upload waited for the client: just now for
/// `pause`, and for `total` of the request's `age`.
constexpr bool waited_for_upload(Duration pause, Duration total, Duration age) {
  return pause >= min_upload_pause || (total >= min_slow_upload && total >= age / 2);
}

/// How much longer the reader of a response, that is, its client, has held up the backend than it
/// has waited for it. What is in flight when the backend ends comes with short waits.
class ReaderDelay {
 public:
  explicit ReaderDelay(Instant now) : since_(now) {}
  /// The reader wants the next bytes.
  void asked(Instant now) {
    delay_ = std::min(delay_ + (now - since_), max_delay);
    since_ = now;
  }
  /// The reader has waited for the backend since `asked`, or the last call.
  void waited(Instant now) {
    delay_ = std::max(delay_ - (now - since_), Duration{});
    since_ = now;
  }
  bool is_long() const { return delay_ >= min_reader_pause; }

 private:
  static constexpr Duration max_delay = std::chrono::seconds(1);

  Duration delay_{};
  Instant since_;
};

class SilenceLimit {
 public:
  /// Limits silence to this long from now on; `Duration::max()` lifts the limit.
  void set(Duration longest, Instant now) {
    longest_ = longest;
    since_ = now;
  }
  Duration longest() const { return longest_; }
  /// When a wait that began at this instant ends, if not at its own deadline.
  Instant shorten(Instant own, Instant began) const {
    return longest_ == Duration::max() ? own : std::min(own, std::max(began, since_) + longest_);
  }

 private:
  Duration longest_ = Duration::max();
  Instant since_{};
};

}  // namespace evenkeel
