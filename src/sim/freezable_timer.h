// The timer of a runner, which the fault `hang` stops in the middle of its work.
#pragma once

#include "evenkeel/base/high_resolution_timer.h"
#include "evenkeel/base/loop.h"

namespace evenkeel {

/// Advances a runner at a deadline, or in the loop's next step. While it is frozen it does neither.
/// Thread: the loop's.
class FreezableTimer {
 public:
  /// A runner: work whose ends are deadlines.
  class Runner {
   public:
    /// Ends what is due, begins what can begin, and arms the timer for the next end.
    virtual void advance() = 0;
    /// Moves all deadlines of unfinished work: time stood still for so long.
    virtual void postpone(Duration frozen_for) = 0;

   protected:
    ~Runner() = default;
  };

  FreezableTimer(Loop& loop, Runner& runner);

  bool frozen() const { return frozen_; }
  void wake_soon();
  void arm(Instant when) { deadline_.arm(when); }
  void disarm() { deadline_.disarm(); }
  /// Freezes; or thaws: postpones by the time that it was frozen, then advances.
  void freeze(bool frozen);

 private:
  void advance_runner();

  Loop& loop_;
  Runner& runner_;
  bool frozen_ = false;
  Instant frozen_at_{};
  MethodWaiter<&FreezableTimer::advance_runner> start_{*this};
  MethodHighResolutionTimer<&FreezableTimer::advance_runner> deadline_;
};

}  // namespace evenkeel
