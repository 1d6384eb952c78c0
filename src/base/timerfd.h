// Setting a timerfd to an instant of Clock.
#pragma once

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// The descriptor expires at that time, or at once if it has passed. `fd`: a timerfd of
/// CLOCK_MONOTONIC, which Clock is. Discards an expiry that was not read or reported.
void set_timerfd(int fd, Instant when);

}  // namespace evenkeel
