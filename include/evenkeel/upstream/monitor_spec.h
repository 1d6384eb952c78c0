// What the backend monitor is to do for one backend.
#pragma once

#include <string>
#include <vector>

#include "evenkeel/backend/backend.h"
#include "evenkeel/config/config.h"
#include "evenkeel/upstream/backend_client.h"
#include "evenkeel/upstream/health_checker.h"
#include "evenkeel/upstream/metrics_poller.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

struct MonitorSpec {
  std::string pool;
  BackendPtr backend;
  HealthCheckSpec health;  ///< `engine` as the file has it
  MetricsPollSpec metrics;
  ServerAccess access;
  bool lists_models = false;  ///< requests /v1/models regularly, if the engine has that
  /// True if the pool's picker wants to know the backend's adapters, if the engine lists them.
  bool lists_adapters = false;
  /// True if the process before this one found the backend down: the start does not wait long for
  /// its first check.
  bool was_down = false;
};

/// One for each backend of `pool_set`. REQUIRES: `pool_set` was built from `config`.
std::vector<MonitorSpec> monitor_specs(const Config& config, const PoolSet& pool_set);

}  // namespace evenkeel
