// A process that replaces this one: a binary upgrade.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/owned_fd.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/upgrade/handover_packets.h"

namespace evenkeel {

/// How this process was started, and its replacement will be.
struct Program {
  std::string path;  ///< empty: not known
  std::vector<std::string> arguments;

  /// Returns the program of this process. The path is the one that started it, so that a new file
  /// there, or a symbolic link to a new one, is what runs next.
  static Program of_this_process();
};

/// What the replacement continues with.
struct Handover {
  std::vector<HandedOverListener> listeners;
  std::string state;  ///< bytes (saved_state.h)
};

/// Starts the replacement, passes it the listening sockets, and waits until it accepts connections.
///
/// Thread: the loop's.
class Successor {
 public:
  explicit Successor(Loop& loop) : loop_(loop) {}
  Successor(const Successor&) = delete;
  Successor& operator=(const Successor&) = delete;
  /// Ends the process if it has not become ready.
  ~Successor();

  /// Done when the new process accepts connections; its descriptors may be closed then. Errors: why
  /// it did not start or did not become ready before the deadline; then it has ended.
  Task<Result<Done>> start(const Program& program, const Handover& handover, Instant deadline);
  /// Sends it SIGTERM while it is starting: this process shuts down itself.
  void cancel();

  /// Done when the process, which has become ready, has ended. Returns how it failed; empty: it was
  /// stopped, or replaced in turn. Its exit status is kept for the parent of this process, if this
  /// one exits before `forget`. REQUIRES: `start` has succeeded.
  Task<std::string> wait_end();
  /// Removes the process from the system's table. REQUIRES: it has ended.
  void forget();
  /// Sends it a signal. False: it has ended.
  bool send(int signal) const;

  pid_t pid() const { return pid_; }
  /// The channel for reports to and from that process. REQUIRES: `start` has succeeded.
  int channel() const { return own_.get(); }
  /// True if the new process is running, as `pid`.
  bool runs_as(pid_t pid) const { return (starting_ || ready_) && pid == pid_; }

 private:
  Result<Done> spawn(const Program& program, const Handover& handover);
  Task<std::string> wait_ready(Instant deadline);
  void take_back() const;
  Task<std::string> reap();

  Loop& loop_;
  OwnedFd own_;     // this process's end of the channel
  OwnedFd theirs_;  // the new process's end of the channel, until that is ready
  pid_t pid_ = 0;
  bool starting_ = false;
  bool ready_ = false;
};

}  // namespace evenkeel
