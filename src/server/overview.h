// What the daemon is doing, for those who ask over the admin listener.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/config/config.h"
#include "evenkeel/config/load.h"
#include "evenkeel/proxy/plan.h"
#include "evenkeel/stats/access_log.h"
#include "evenkeel/stats/sheet.h"
#include "server/worker.h"

namespace evenkeel {

class Control;
class Lookout;

/// What the admin listener tells about. Read on the control thread; all that it points to outlives
/// the listener.
struct Overview {
  std::string version;
  std::string config_file;
  std::string config_hash;
  Instant started{};
  std::chrono::system_clock::time_point loaded_at{};
  const Config* config = nullptr;
  std::shared_ptr<const Fleet> fleet;
  const std::vector<std::unique_ptr<Worker>>* workers = nullptr;
  Sheets* sheets = nullptr;
  const AccessLog* access_log = nullptr;  ///< null: off
  Control* control = nullptr;             ///< null: nothing can be changed
  const Lookout* lookout = nullptr;       ///< null: nobody watches the backends
  std::vector<Problem> reload_problems;   ///< of the last reload; none: it was accepted
  bool ready = false;
  bool draining = false;
};

}  // namespace evenkeel
