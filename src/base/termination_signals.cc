#include "evenkeel/base/termination_signals.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
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

int wait_any_readable(std::span<const int> fds, Instant deadline) {
  std::vector<pollfd> polled;
  for (const int fd : fds) polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  const int timeout = deadline == never ? -1 : static_cast<int>(std::max<std::int64_t>(left, 0));
  if (poll(polled.data(), polled.size(), timeout) <= 0) return -1;
  const auto ready = std::ranges::find_if(polled, [](auto& each) { return each.revents != 0; });
  return ready == polled.end() ? -1 : static_cast<int>(ready - polled.begin());
}

}  // namespace evenkeel
