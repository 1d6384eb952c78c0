// SIGINT and SIGTERM as a readable descriptor.
#pragma once

#include <csignal>
#include <span>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Makes `fd` readable on SIGINT and SIGTERM while it lives; they do not end the process. Threads
/// that start meanwhile inherit that. A child process must call `unblock_in_child` before it execs.
/// Thread: the one that created it.
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

/// Waits until one of the descriptors is readable or the deadline passes; skips negative ones.
/// Returns the index of the first that is readable, or -1.
int wait_any_readable(std::span<const int> fds, Instant deadline);

}  // namespace evenkeel
