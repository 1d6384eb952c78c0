// Signals of the process, read on the control loop.
#pragma once

#include <sys/types.h>

namespace evenkeel {

/// Blocks HUP, INT, TERM, QUIT, USR1 and USR2 in every thread that is made afterwards, and returns
/// them one at a time. Ignores PIPE and XFSZ: a write to a closed connection or past the file size
/// limit is an error of that write. Throws std::system_error without a descriptor. REQUIRES: made
/// before any thread that does not block signals.
class ProcessSignals {
 public:
  ProcessSignals();
  ProcessSignals(const ProcessSignals&) = delete;
  ProcessSignals& operator=(const ProcessSignals&) = delete;
  ~ProcessSignals();

  /// Readable while a signal is pending.
  int fd() const { return fd_; }
  struct Received {
    int number = 0;    ///< 0: none is pending
    pid_t sender = 0;  ///< 0: the kernel, or a process outside this one's PID namespace
  };
  Received next() const;

 private:
  int fd_;
};

}  // namespace evenkeel
