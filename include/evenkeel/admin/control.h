// What operators may change while the daemon runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/load.h"

namespace evenkeel {

/// Asks what a reload would do.
struct PreviewRequest {
  std::string text;  ///< of a file; empty: the daemon's own is read
  /// True if the request came with the token. Without it the preview reads no file that only `text`
  /// names: it would tell what the daemon's user can read.
  bool authorized = false;
  std::stop_token left;  ///< stopped when the client has left
};

/// What a reload of a given file would do.
struct ReloadPreview {
  std::vector<Problem>
      problems;  ///< why it would be refused, as `check` words it; empty: it would not
  std::vector<std::string> changes;  ///< to the active configuration (config/changes.h)
  /// The keys for which the reload would start a process that takes over; empty: this one would
  /// apply all changes itself.
  std::vector<std::string> takeover;
  /// What was not looked at: files that only the text names, names beyond a limit.
  std::vector<std::string> unchecked;
};

/// Changes the running daemon. Thread: the control loop's. Outlives the tasks that it returns. A
/// caller that drops one of them (its client left) does not cancel a change that is queued or runs.
class Control {
 public:
  virtual ~Control() = default;

  /// Reads the file again, checks it, builds everything that it describes, then swaps. Returns why
  /// the file was rejected, in the words of `check`; empty: it is active, in this process or in one
  /// that has taken over from it. Reloads run one after the other.
  virtual Task<std::vector<Problem>> reload() = 0;

  /// Starts the program that is installed now, as SIGUSR2 does, and hands over to it. Done when it
  /// has taken over; this process drains then. Errors: why it has not.
  virtual Task<Result<Done>> upgrade() = 0;

  /// Checks what a reload would check, and builds nothing. Runs beside changes, at low priority.
  /// Errors: another preview is in progress; no thread can be started; the client has left.
  virtual Task<Result<ReloadPreview>> preview(PreviewRequest request) = 0;

  /// Gives a backend a weight of 1 to 1000 in place of the file's, until a reload brings another
  /// weight for it. Errors name the backend or the cause.
  virtual Task<Result<Done>> set_weight(std::string pool, std::string backend,
                                        std::uint32_t weight) = 0;

  /// When the drain of a backend ends by itself; nothing: it lasts until an operator ends it.
  using Time = std::chrono::system_clock::time_point;
  virtual void set_drain_end(const std::string& pool, const std::string& backend,
                             std::optional<Time> end) = 0;
};

}  // namespace evenkeel
