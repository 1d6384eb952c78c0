// A clock that rings on time: the loop's own timers are coarse, a step of an engine is not.
#pragma once

#include "evenkeel/base/loop.h"

namespace evenkeel {

/// Rings once at an instant, to the accuracy of the kernel's high-resolution timers (a timerfd).
/// Thread: the loop's.
class HighResolutionTimer : private Waiter {
 public:
  using Callback = void (*)(HighResolutionTimer&);
  HighResolutionTimer(Loop& loop, Callback callback);
  HighResolutionTimer(const HighResolutionTimer&) = delete;
  ~HighResolutionTimer();

  /// Sets it, or sets it anew; an instant in the past rings in the next turn.
  void arm(Instant when);
  void disarm();

 private:
  Watch watch_;
  Callback callback_;
};

}  // namespace evenkeel
