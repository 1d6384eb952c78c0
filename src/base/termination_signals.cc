#include "evenkeel/base/termination_signals.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <vector>

namespace evenkeel {

TerminationSignals::TerminationSignals() {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGINT);
  sigaddset(&watched, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &watched, &previous_mask_);
  fd_ = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd_ < 0) {
    pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
    throw std::system_error(errno, std::generic_category(), "signalfd");
  }
}

TerminationSignals::~TerminationSignals() {
  // Pending signals were handled already: they must not end the process now.
  signalfd_siginfo taken;
  while (read(fd_, &taken, sizeof taken) == static_cast<ssize_t>(sizeof taken)) {
  }
  close(fd_);
  pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
}

void TerminationSignals::unblock_in_child() const {
  pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
}

int wait_any_readable(const int* fds, int count, int timeout_ms) {
  std::vector<pollfd> polled;
  for (int i = 0; i < count; ++i) polled.push_back({.fd = fds[i], .events = POLLIN, .revents = 0});
  if (poll(polled.data(), polled.size(), timeout_ms) <= 0) return -1;
  for (int i = 0; i < count; ++i) {
    if (polled[static_cast<std::size_t>(i)].revents != 0) return i;
  }
  return -1;
}

}  // namespace evenkeel
