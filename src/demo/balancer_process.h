// The balancer of the demo: a process of its own, the same that an operator starts.
#pragma once

#include <sys/types.h>

#include <deque>
#include <memory>
#include <string>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/termination_signals.h"

namespace evenkeel {

/// A child process `<binary> run -c -` with its file on standard input: nothing is left on disk,
/// however this ends. It dies with us, and a Ctrl-C on the terminal does not reach it.
/// Thread: the one that started it, which must live as long.
class BalancerProcess {
 public:
  /// Returns when it says `ready`. Errors hold what it said instead, or "interrupted".
  static Result<std::unique_ptr<BalancerProcess>> start(const std::string& binary,
                                                        const std::string& config,
                                                        const TerminationSignals& interrupts,
                                                        Duration timeout);
  BalancerProcess(const BalancerProcess&) = delete;
  /// Ends it, at once if need be, and waits for its end.
  ~BalancerProcess();

  pid_t pid() const { return pid_; }
  /// "127.0.0.1:43211": where it listens for clients, and for its operator.
  const std::string& public_address() const { return public_address_; }
  const std::string& admin_address() const { return admin_address_; }

  /// Readable when it has said something, or has ended.
  int output_fd() const { return output_fd_; }
  /// Takes what it said. False: it has closed its output, which it does by ending.
  bool take_output();
  /// The last lines that it said.
  std::string last_output() const;

  /// Asks it to leave, kills it when its time is over; its exit code, or 128 + the signal.
  int stop(Duration timeout);

 private:
  BalancerProcess(pid_t pid, int output_fd) : pid_(pid), output_fd_(output_fd) {}
  void take_line(std::string_view line);

  pid_t pid_;  // 0: it has ended and been waited for
  int output_fd_;
  int exit_code_ = 0;
  bool ready_ = false;
  std::string public_address_;
  std::string admin_address_;
  std::string partial_;
  std::deque<std::string> lines_;
};

/// The path of this program: the balancer is itself, started again.
std::string executable_path();

}  // namespace evenkeel
