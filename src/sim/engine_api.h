// What differs between inference engines: paths, errors, metrics, and how they load and answer.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/http/message.h"
#include "evenkeel/sim/presets.h"
#include "evenkeel/sim/simulators.h"
#include "sim/server_statistics.h"

namespace evenkeel {

class SimulatedModel;

/// Why an engine refuses a request.
struct ApiError {
  int status = 400;
  std::string message;
  std::string_view param = {};  ///< empty: null
};

/// What the metrics page shows as gauges.
struct Gauges {
  std::size_t running = 0;
  std::size_t waiting = 0;
  std::size_t deferred = 0;  ///< of those that wait, for a slot for their adapter
  double kv_cache_ratio = 0;
  std::uint64_t context_tokens = 0;   ///< of running requests
  std::uint64_t reserved_tokens = 0;  ///< that running requests may come to
  double generated_per_second = 0;
};

struct GpuSnapshot {
  double utilization_ratio = 0;
  double uptime_seconds = 0;
  double busy_seconds = 0;
  double memory_ratio = 0.92;  ///< vLLM's gpu_memory_utilization: taken at the start and kept
};

/// Which LoRA adapters the requests in an engine use, by number.
struct AdapterUse {
  std::vector<std::uint32_t> running;
  std::vector<std::uint32_t> waiting;

  auto operator<=>(const AdapterUse&) const = default;
};

/// All that a metrics page is rendered from.
struct EngineSnapshot {
  const Preset& preset;
  std::string_view model;
  std::uint64_t gpu_seed = 0;  ///< names the GPUs
  double started_unix = 0;
  bool sleeping = false;
  Gauges gauges;
  const ServerStatistics& statistics;
  GpuSnapshot gpu;
  const AdaptersSpec& adapters;
  /// Each state that the engine was in since it started, and when it last was, in seconds since
  /// 1970.
  const std::map<AdapterUse, double>& adapter_uses;
};

/// One engine's HTTP API in front of a simulated model. Thread: the model's loop.
class EngineApi {
 public:
  virtual ~EngineApi() = default;
  /// Answers everything but the pages that all simulated servers have: /echo, /sim/v1, /metrics.
  /// `client_fd` is the client's connection; the abort delay is measured on it.
  virtual Task<Result<Response>> handle(Request& request, int client_fd) = 0;
  /// The body of an error.
  virtual std::string error_body(const ApiError& error) const = 0;
  /// The page at /metrics, with the engine's own names, labels and buckets.
  virtual std::string metrics_page(const EngineSnapshot& snapshot) const = 0;
};

template <class Engine>
std::unique_ptr<EngineApi> make_engine(SimulatedModel& model) {
  return std::make_unique<Engine>(model);
}

/// An entry of the table of engines: what the simulator needs to know besides the API.
struct SimulatedEngine {
  std::string_view name;  ///< of --engine
  std::unique_ptr<EngineApi> (*make)(SimulatedModel& model);
  std::string_view model_owner;  ///< `owned_by` in /v1/models; empty: the model's name
  std::chrono::seconds idle_timeout{75};
  bool refuses_connections_while_loading = false;
  /// True if the head of a stream is sent with its first token, else at once. See
  /// docs/simulator.md.
  bool head_with_first_token = false;
  bool writes_null_usage = false;     ///< `"usage":null` in every event of a stream
  std::string_view fingerprint = {};  ///< `system_fingerprint` in the last event of a stream
  /// True if gauges change with prefills, with every 40th decode step and when the engine becomes
  /// idle.
  bool publishes_gauges_by_step = false;
  std::string_view metrics_type = "text/plain; version=0.0.4; charset=utf-8";
  /// True if `/metrics/` answers too and selects samples by `name[]`, as prometheus_client's ASGI
  /// app does.
  bool mounts_metrics_app = false;
  HistogramBuckets buckets;
};

// One file each.
extern const SimulatedEngine simulated_vllm;
extern const SimulatedEngine simulated_sglang;
extern const SimulatedEngine simulated_triton;
extern const SimulatedEngine simulated_tgi;
extern const SimulatedEngine simulated_llamacpp;
extern const SimulatedEngine simulated_generic;

/// Every engine that can be simulated. A new one is a file beside vllm.cc and an entry here.
std::span<const SimulatedEngine* const> simulated_engines();
/// Null if there is no engine of that name.
const SimulatedEngine* find_simulated_engine(std::string_view name);

}  // namespace evenkeel
