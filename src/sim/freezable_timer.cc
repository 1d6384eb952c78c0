#include "sim/freezable_timer.h"

namespace evenkeel {

FreezableTimer::Deadline::Deadline(Loop& loop, FreezableTimer& owner)
    : HighResolutionTimer(
          loop,
          [](HighResolutionTimer& self) { static_cast<Deadline&>(self).timer.advance_runner(); }),
      timer(owner) {}

FreezableTimer::Start::Start(FreezableTimer& owner)
    : Waiter([](Waiter& self) { static_cast<Start&>(self).timer.advance_runner(); }),
      timer(owner) {}

FreezableTimer::FreezableTimer(Loop& loop, Runner& runner)
    : loop_(loop), runner_(runner), deadline_(loop, *this) {}

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
