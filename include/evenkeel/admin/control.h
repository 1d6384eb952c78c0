// What may change while the daemon runs, for those whom the admin listener lets in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/load.h"

namespace evenkeel {

/// Replaces what runs. Thread: the control loop's. Outlives the tasks that it gives; dropping one
/// of them (its client left) does not stop what has begun.
class Control {
 public:
  virtual ~Control() = default;

  /// Reads the file again, checks it, builds all of it, swaps. What kept it from that, as `check`
  /// words it; nothing: the file is what runs now. One that is asked for while another is under way
  /// comes after that one.
  virtual Task<std::vector<Problem>> reload() = 0;

  /// Gives a backend a weight of 1 to 1000 in place of its file's, until a file comes that says
  /// something else than the one that was running then. Errors name the backend or the cause.
  virtual Task<Result<Done>> set_weight(std::string pool, std::string backend,
                                        std::uint32_t weight) = 0;
};

}  // namespace evenkeel
