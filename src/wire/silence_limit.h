// How long a backend may send nothing, which is shorter while it is suspected to be dead.
#pragma once

#include <algorithm>
#include <chrono>

#include "evenkeel/base/clock.h"

namespace evenkeel {

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
