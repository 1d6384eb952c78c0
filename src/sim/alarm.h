// A clock that rings on time: the loop's own timers are coarse, a step of an engine is not.
#pragma once

#include "evenkeel/base/loop.h"

namespace evenkeel {

/// Rings once at an instant, to the accuracy of the kernel's high-resolution timers (a timerfd).
/// Thread: the loop's.
class Alarm : private Waiter {
 public:
  using Ring = void (*)(Alarm&);
  Alarm(Loop& loop, Ring ring);
  Alarm(const Alarm&) = delete;
  ~Alarm();

  /// Sets it, or sets it anew; an instant in the past rings in the next turn.
  void set(Instant when);
  void clear();

 private:
  Watch watch_;
  Ring ring_;
};

}  // namespace evenkeel
