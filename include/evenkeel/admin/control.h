// What operators may change while the daemon runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/load.h"

namespace evenkeel {

/// What a reload of a text would do.
struct ReloadPreview {
  std::vector<Problem>
      problems;  ///< why it would be refused, as `check` words it; empty: it would not
  std::vector<std::string> changes;  ///< against the active configuration (config/changes.h)
};

/// Changes what runs. Thread: the control loop's. Outlives the tasks that it returns; a caller that
/// drops one of them (its client left) does not stop a change that is queued or has begun.
class Control {
 public:
  virtual ~Control() = default;

  /// Reads the file again, checks it, builds everything that it describes, then swaps. Returns why
  /// that was refused, as `check` words it; empty: the file is active. Reloads run one after the
  /// other.
  virtual Task<std::vector<Problem>> reload() = 0;

  /// Goes through a reload of this text, or of the daemon's own file when it is empty, up to the
  /// point where it would change something. Reads certificates and keys and looks names up. Errors:
  /// another preview is in progress.
  virtual Task<Result<ReloadPreview>> preview(std::string text) = 0;

  /// Gives a backend a weight of 1 to 1000 in place of the file's, until a reload brings another
  /// weight for it. Errors name the backend or the cause.
  virtual Task<Result<Done>> set_weight(std::string pool, std::string backend,
                                        std::uint32_t weight) = 0;
};

}  // namespace evenkeel
