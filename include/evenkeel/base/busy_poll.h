// Whether a loop that has nothing to do asks the kernel again for a moment before it sleeps.
#pragma once

#include <algorithm>
#include <chrono>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Decides whether a loop polls before it sleeps: it does after several short waits in a row. Under
/// load the next event comes within microseconds, while falling asleep and being woken takes
/// longer, for the process that wakes this one too. Polling in vain costs CPU time: after it the
/// loop needs twice as many short waits as before until it polls again.
///
/// Thread: its loop's.
class BusyPoll {
 public:
  static constexpr Duration longest = std::chrono::microseconds(20);       ///< of one poll
  static constexpr Duration short_sleep = std::chrono::microseconds(100);  ///< with the waking
  static constexpr unsigned min_short_sleeps = 32;
  static constexpr unsigned max_short_sleeps = 8192;
  static constexpr unsigned successes_that_restore = 64;

  /// True if the next wait begins with polling.
  bool is_due() const { return enabled_ && short_sleeps_ >= needed_; }
  void enable(bool enabled) { enabled_ = enabled; }

  /// A poll ended, with an event or after `longest`.
  void polled(bool had_event) {
    if (had_event) {
      if (++successes_ >= successes_that_restore) needed_ = min_short_sleeps;
      return;
    }
    needed_ = std::min(2 * needed_, max_short_sleeps);
    short_sleeps_ = successes_ = 0;
  }

  void slept(Duration duration) { short_sleeps_ = duration <= short_sleep ? short_sleeps_ + 1 : 0; }

 private:
  bool enabled_ = true;
  unsigned needed_ = min_short_sleeps;  // in a row
  unsigned short_sleeps_ = 0;           // in a row; stays while polls succeed
  unsigned successes_ = 0;              // in a row
};

}  // namespace evenkeel
