#include "server/process_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <initializer_list>
#include <system_error>

namespace evenkeel {

ProcessSignals::ProcessSignals() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2}) {
    sigaddset(&wanted, number);
  }
  pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  fd_ = signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
}

ProcessSignals::~ProcessSignals() { close(fd_); }

ProcessSignals::Received ProcessSignals::next() const {
  signalfd_siginfo info;
  if (read(fd_, &info, sizeof info) != sizeof info) return {};
  return {.number = static_cast<int>(info.ssi_signo), .sender = static_cast<pid_t>(info.ssi_pid)};
}

}  // namespace evenkeel
