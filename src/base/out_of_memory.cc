#include "evenkeel/base/out_of_memory.h"

#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string_view>

namespace evenkeel {

// Must not allocate.
void out_of_memory() noexcept {
  constexpr std::string_view line =
      "evenkeel: out of memory: the process ends; lower limits.memory, or raise the memory limit "
      "of the process\n";
  // A full pipe must not keep the process from ending.
  constexpr int patience = 500;  // ms
  pollfd log{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&log, 1, patience) > 0) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  }
  std::_Exit(EXIT_FAILURE);
}

void exit_when_out_of_memory() { std::set_new_handler(out_of_memory); }

}  // namespace evenkeel
