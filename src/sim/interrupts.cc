#include "sim/interrupts.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <vector>

namespace evenkeel {

Interrupts::Interrupts() {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGINT);
  sigaddset(&watched, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &watched, &before_);
  fd_ = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd_ < 0) {
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    throw std::system_error(errno, std::generic_category(), "signalfd");
  }
}

Interrupts::~Interrupts() {
  // What was waited for has been acted upon: it must not end the process now.
  signalfd_siginfo taken;
  while (read(fd_, &taken, sizeof taken) == static_cast<ssize_t>(sizeof taken)) {
  }
  close(fd_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Interrupts::restore_in_child() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

int wait_for_any(const int* fds, int count, int timeout_ms) {
  std::vector<pollfd> polled;
  for (int i = 0; i < count; ++i) polled.push_back({.fd = fds[i], .events = POLLIN, .revents = 0});
  if (poll(polled.data(), polled.size(), timeout_ms) <= 0) return -1;
  for (int i = 0; i < count; ++i) {
    if (polled[static_cast<std::size_t>(i)].revents != 0) return i;
  }
  return -1;
}

}  // namespace evenkeel
