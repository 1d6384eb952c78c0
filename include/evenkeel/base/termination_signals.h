// SIGINT and SIGTERM as something to wait for.
#pragma once

#include <csignal>

namespace evenkeel {

/// While it lives, an interrupt does not end the process but makes `fd` readable. Threads that are
/// started meanwhile inherit that. A child process must call `unblock_in_child` before it execs.
/// Thread: the one that made it.
class TerminationSignals {
 public:
  TerminationSignals();
  TerminationSignals(const TerminationSignals&) = delete;
  ~TerminationSignals();

  int fd() const { return fd_; }
  void unblock_in_child() const;

 private:
  sigset_t previous_mask_;
  int fd_;
};

/// Waits until one of the descriptors is readable or the time is over; a negative one is skipped.
/// Returns the index of the first that is readable, or -1.
int wait_any_readable(const int* fds, int count, int timeout_ms);

}  // namespace evenkeel
