// What the daemon is doing, for those who ask over the admin listener.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/config/config.h"
#include "evenkeel/config/load.h"
#include "evenkeel/proxy/plan.h"
#include "evenkeel/stats/access_log.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

class Control;
class BackendMonitor;

/// What the admin listener tells about. Read on the control thread; all that it points to outlives
/// the listener.
struct RuntimeStatus {
  std::string version;
  std::string config_file;
  std::string config_hash;
  Instant started{};
  std::chrono::system_clock::time_point loaded_at{};
  const Config* config = nullptr;
  std::shared_ptr<const PoolSet> pool_set;
  std::vector<Loop*> loops;                    ///< one per worker
  std::function<std::uint64_t()> connections;  ///< open on all workers
  MetricsRegistry* metrics_registry = nullptr;
  const AccessLog* access_log = nullptr;            ///< null: off
  Control* control = nullptr;                       ///< null: nothing can be changed
  const BackendMonitor* backend_monitor = nullptr;  ///< null: nobody watches the backends
  std::vector<Problem> reload_problems;             ///< of the last reload; none: it was accepted
  bool ready = false;
  bool draining = false;
};

}  // namespace evenkeel
