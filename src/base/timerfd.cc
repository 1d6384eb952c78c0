#include "timerfd.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <cstdint>

namespace evenkeel {

void set_timerfd(int fd, Instant when) {
  const auto since_boot =
      std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count();
  const auto ns = std::max<std::int64_t>(since_boot, 1);  // zero would disarm it
  itimerspec setting{};
  setting.it_value.tv_sec = ns / 1'000'000'000;
  setting.it_value.tv_nsec = ns % 1'000'000'000;
  timerfd_settime(fd, TFD_TIMER_ABSTIME, &setting, nullptr);
}

}  // namespace evenkeel
