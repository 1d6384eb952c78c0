#include "sim/freezable_timer.h"

namespace evenkeel {

FreezableTimer::FreezableTimer(Loop& loop, Runner& runner)
    : loop_(loop), runner_(runner), deadline_(*this, loop) {}

void FreezableTimer::advance_runner() {
  if (!frozen_) runner_.advance();
}

void FreezableTimer::wake_soon() {
  if (!frozen_) loop_.wake_soon(start_);
}

void FreezableTimer::freeze(bool frozen) {
  if (frozen_ == frozen) return;
  frozen_ = frozen;
  const Instant now = loop_.read_clock();
  if (frozen) {
    frozen_at_ = now;
    deadline_.disarm();
    return;
  }
  runner_.postpone(now - frozen_at_);
  loop_.wake_soon(start_);
}

}  // namespace evenkeel
