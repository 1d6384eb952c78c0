#include "evenkeel/base/high_resolution_timer.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>

#include "timerfd.h"

namespace evenkeel {

HighResolutionTimer::HighResolutionTimer(Loop& loop, Action action)
    : Waiter([](Waiter& self) {
        auto& timer = static_cast<HighResolutionTimer&>(self);
        timer.watch_.mark_not_readable();
        timer.action_(timer);
      }),
      action_(action) {
  const int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "timerfd_create");
  watch_.open(loop, fd);
  watch_.on_readable(this);
}

HighResolutionTimer::~HighResolutionTimer() {
  const int fd = watch_.fd();
  watch_.release_before_close();
  close(fd);
}

void HighResolutionTimer::arm(Instant when) { set_timerfd(watch_.fd(), when); }

void HighResolutionTimer::disarm() {
  const itimerspec none{};
  timerfd_settime(watch_.fd(), 0, &none, nullptr);
}

}  // namespace evenkeel
