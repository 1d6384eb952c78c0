// A timer that is exact to microseconds, where the loop's own are exact to 32 ms.
#pragma once

#include "evenkeel/base/loop.h"

namespace evenkeel {

/// Calls an action once at an instant, with the accuracy of the kernel's high-resolution timers (a
/// timerfd). Thread: the loop's.
class HighResolutionTimer : private Waiter {
 public:
  using Action = void (*)(HighResolutionTimer&);
  HighResolutionTimer(Loop& loop, Action action);
  HighResolutionTimer(const HighResolutionTimer&) = delete;
  ~HighResolutionTimer();

  /// Arms the timer, or moves it; one in the past expires in the loop's next iteration.
  void arm(Instant when);
  void disarm();

 private:
  Watch watch_;
  Action action_;
};

/// `MethodHighResolutionTimer<&Engine::step> timer_{*this, loop};`
template <auto Method>
using MethodHighResolutionTimer = MethodEvent<HighResolutionTimer, Method>;

}  // namespace evenkeel
