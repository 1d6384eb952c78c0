// Preloaded into the daemon: shifts its wall clock by the seconds in the file CLOCK_SHIFT_FILE, a
// 64-bit number. The monotonic clocks stay, as they do when NTP or an administrator sets the clock
// of a machine.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

const volatile std::int64_t* map_shift() {
  const char* path = std::getenv("CLOCK_SHIFT_FILE");
  const int file = path != nullptr ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return nullptr;
  void* mapped = mmap(nullptr, sizeof(std::int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  return mapped == MAP_FAILED ? nullptr : static_cast<const volatile std::int64_t*>(mapped);
}

std::int64_t shift_seconds() {
  static const volatile std::int64_t* const shift = map_shift();
  return shift != nullptr ? *shift : 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    now->tv_sec += shift_seconds();
  }
  return result;
}

int gettimeofday(timeval* now, void* zone) noexcept {
  const auto result = static_cast<int>(syscall(SYS_gettimeofday, now, zone));
  if (result == 0) now->tv_sec += shift_seconds();
  return result;
}

std::time_t time(std::time_t* now) noexcept {
  timespec read{};
  clock_gettime(CLOCK_REALTIME, &read);
  if (now != nullptr) *now = read.tv_sec;
  return read.tv_sec;
}

}  // extern "C"
