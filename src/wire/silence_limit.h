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

class SilenceLimit {
 public:
  /// From now on silence may last at most this long; `Duration::max()` lifts the limit.
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
