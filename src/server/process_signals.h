// Signals of the process, read on the control loop.
#pragma once

namespace evenkeel {

/// Holds back HUP, INT, TERM, QUIT, USR1 and USR2 from every thread that is made afterwards, and
/// gives them one at a time; ignores PIPE. REQUIRES: made before any thread is.
class ProcessSignals {
 public:
  ProcessSignals();
  ProcessSignals(const ProcessSignals&) = delete;
  ProcessSignals& operator=(const ProcessSignals&) = delete;
  ~ProcessSignals();

  /// Readable while there is a next one.
  int fd() const { return fd_; }
  /// The next signal, or 0.
  int next() const;

 private:
  int fd_;
};

}  // namespace evenkeel
