// A binary upgrade, from the side of the process that is replaced.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/upgrade/successor.h"
#include "server/reloader.h"

namespace evenkeel {

/// Why no process can take over from one that runs this program; empty: one can.
std::string takeover_obstacle(const Program& program);

/// Passes what the reloader serves to a new process, and knows it from then on.
///
/// Thread: the control thread.
class Upgrade {
 public:
  /// The loop and the reloader outlive it.
  Upgrade(Loop& loop, Reloader& reloader, Program program)
      : loop_(loop), reloader_(reloader), program_(std::move(program)) {}

  /// Done when the new process accepts connections. Errors: why it does not; then it has ended.
  Task<Result<Done>> start_successor(Binary binary, int admin_fd);
  /// Starts no process from now on, and sends the one that is starting SIGTERM.
  void cancel();
  /// True if `pid` is the new process, which is running.
  bool runs_as(pid_t pid) const { return successor_ && successor_->runs_as(pid); }
  /// Has the new process reload: it may have read the file before it was changed. REQUIRES: as of
  /// `pid`.
  void pass_on_reload() const;

  // ---- the new process, as Successor has it. REQUIRES: it was started ----

  pid_t pid() const { return successor_->pid(); }
  int channel() const { return successor_->channel(); }
  Task<std::string> wait_end() { return successor_->wait_end(); }
  void forget() { successor_->forget(); }

 private:
  Task<std::string> collect_state();
  Handover handover(int admin_fd, std::string state) const;

  Loop& loop_;
  Reloader& reloader_;
  const Program program_;
  std::optional<Successor> successor_;
  bool cancelled_ = false;
};

}  // namespace evenkeel
