#include "evenkeel/base/high_resolution_timer.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

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

void HighResolutionTimer::arm(Instant when) {
  // Clock is CLOCK_MONOTONIC. Setting it also discards an expiry that was not read.
  const auto since_boot =
      std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count();
  const auto ns = std::max<std::int64_t>(since_boot, 1);  // zero would disarm it
  itimerspec setting{};
  setting.it_value.tv_sec = ns / 1'000'000'000;
  setting.it_value.tv_nsec = ns % 1'000'000'000;
  timerfd_settime(watch_.fd(), TFD_TIMER_ABSTIME, &setting, nullptr);
}

void HighResolutionTimer::disarm() {
  const itimerspec none{};
  timerfd_settime(watch_.fd(), 0, &none, nullptr);
}

}  // namespace evenkeel
