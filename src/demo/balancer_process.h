// The demo's balancer: a process of its own, started as an operator starts it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <memory>
#include <string>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/termination_signals.h"
#include "evenkeel/config/config.h"
#include "evenkeel/load/load.h"

namespace evenkeel {

/// A child process `<binary> run -c -` that reads its configuration from standard input, so that
/// nothing stays on disk. It ends when this process ends, and a Ctrl-C on the terminal does not
/// reach it. Thread: the one that started it, which must live as long.
class BalancerProcess {
 public:
  static constexpr Duration start_timeout = std::chrono::seconds(15);
  static constexpr Duration drain_timeout = std::chrono::seconds(20);

  /// Returns when the balancer prints `ready`. An error holds its output, or "interrupted".
  static Result<std::unique_ptr<BalancerProcess>> start(const std::string& binary,
                                                        const std::string& config,
                                                        const TerminationSignals& interrupts,
                                                        Duration timeout);
  BalancerProcess(const BalancerProcess&) = delete;
  /// Kills it and waits for its end.
  ~BalancerProcess();

  pid_t pid() const { return pid_; }
  /// "127.0.0.1:43211": for clients; for the admin API.
  const std::string& public_address() const { return public_address_; }
  const std::string& admin_address() const { return admin_address_; }

  /// Readable when there is output, or when the process has ended.
  int output_fd() const { return output_fd_; }
  /// Reads the output. False: the process has closed it, by ending.
  bool take_output();
  /// The last 20 lines of the output.
  std::string last_output() const;

  /// Sends SIGTERM, and SIGKILL after `timeout`. Returns the exit code, or 128 + the signal.
  int stop(Duration timeout);

 private:
  BalancerProcess(pid_t pid, int output_fd) : pid_(pid), output_fd_(output_fd) {}
  void take_line(std::string_view line);

  pid_t pid_;  // 0: ended and reaped
  int output_fd_;
  int exit_code_ = 0;
  bool ready_ = false;
  std::string public_address_;
  std::string admin_address_;
  std::string partial_;
  std::deque<std::string> lines_;
};

/// The path of this program, which the demo starts again as the balancer.
std::string executable_path();

/// The balancer's configuration file, as an operator would write it: this pool alone.
std::string config_of(PoolConfig pool);

/// Streams of about 60 tokens through the balancer, without a rate.
LoadOptions streams_to(const BalancerProcess& balancer, const std::string& model);

}  // namespace evenkeel
