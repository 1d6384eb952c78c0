// Arguments to a verb.
#include <fcntl.h>

#include <csignal>

#include "evenkeel/cli/command_line.h"

#ifndef EVENKEEL_VERSION
#define EVENKEEL_VERSION "unknown"
#endif

namespace {

/// A standard stream that was closed would give its number to the next file that is opened, and
/// the log would write there.
void open_standard_streams() {
  for (int fd = 0; fd < 3; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    [[maybe_unused]] const int opened = open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  // logrotate sends it to all processes of this name. The daemon reads it from a descriptor.
  std::signal(SIGUSR1, SIG_IGN);
  return evenkeel::run_command_line({argv + 1, argv + argc}, EVENKEEL_VERSION);
}
