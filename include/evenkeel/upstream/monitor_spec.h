// What the backend monitor is to do for one backend.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "evenkeel/backend/backend.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/config.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/upstream/backend_client.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

/// How to check a server.
struct HealthCheckSpec {
  HealthConfig config;
  std::string engine = "generic";                     ///< as the file names it, or as detected
  bool kserve = false;                                ///< `generic` that implements KServe v2
  std::vector<std::string> models;                    ///< of its pool
  BackendProtocol protocol = BackendProtocol::http1;  ///< of its pool
  /// True if the file says `engine: auto`: an unknown engine is checked by connecting, not left
  /// unchecked.
  bool engine_is_auto = false;

  bool operator==(const HealthCheckSpec&) const = default;
};

/// What to poll: the settings of the file, and the engine.
struct MetricsPollSpec {
  MetricsConfig config;
  std::string engine = "generic";  ///< as the file names it, or as detected
  std::string url;                 ///< of the page; empty: at the backend, as `config` says
  std::vector<std::string> gpus;   ///< of the backend, by the exporter's labels; empty: all

  bool operator==(const MetricsPollSpec&) const = default;
};

/// Resolves a name without blocking the loop.
using NameResolver =
    std::function<Task<Result<std::vector<Endpoint>>>(std::string host, std::uint16_t port)>;

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
