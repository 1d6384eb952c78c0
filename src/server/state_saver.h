// Keeps the state file up to date while the daemon runs.
#pragma once

#include <memory>
#include <string>

#include "evenkeel/admin/runtime_status.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"
#include "evenkeel/state/state_file.h"
#include "server/reloader.h"

namespace evenkeel {

/// Saves the state in the file that the active configuration names, if it names one.
///
/// Thread: the control thread.
class StateSaver {
 public:
  /// All outlive it.
  StateSaver(Loop& loop, Reloader& reloader, RuntimeStatusPublisher& status)
      : loop_(loop), reloader_(reloader), status_(status) {}

  /// Saves at once and then every minute, without prefix indexes: those are large. REQUIRES: after
  /// the first commit.
  Task<void> save_periodically();
  /// Done when the state is saved. REQUIRES: after the first commit.
  Task<void> save();
  /// Saves the state with prefix indexes, but nothing if the daemon has not become ready. Blocks.
  void save_at_exit();
  /// Saves nothing from now on: another process has the file.
  void stop() { stopped_ = true; }

 private:
  void report(const std::string& problem);

  Loop& loop_;
  Reloader& reloader_;
  RuntimeStatusPublisher& status_;
  bool stopped_ = false;
  /// Shared with writes that may outlive the daemon.
  const std::shared_ptr<StateFileWriter> writer_ = std::make_shared<StateFileWriter>();
};

}  // namespace evenkeel
