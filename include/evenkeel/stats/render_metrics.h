// The page at /metrics: the counters of all workers, the process, and what a Collector adds.
// docs/metrics.md describes each family.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/load_sample.h"
#include "evenkeel/base/result.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// The states of a backend, in the order of export.
inline constexpr std::string_view backend_states[] = {"up",      "down",    "starting", "draining",
                                                      "standby", "ejected", "sleeping"};

/// What a backend may be slower in than its pool (SlowPart), in the order of export.
inline constexpr std::string_view slow_parts[] = {"per_token", "first_token", "response"};

/// The rungs of a backend whose pool has a scheduler (Rung), in the order of export.
inline constexpr std::string_view backend_rungs[] = {
    "confirmed", "assumed_hits", "unseen_first_tokens", "unknown_prompts", "cold"};

/// The sample last polled from a backend.
struct PolledSnapshot : LoadSample {
  double age_seconds = unknown;
};

/// What a backend's engine says of itself. NaN or nothing: unknown.
struct EngineStateSnapshot {
  struct PrefixCache {
    std::uint64_t queried_tokens = 0;
    std::uint64_t hit_tokens = 0;
  };
  std::uint64_t restarts = 0;
  double kv_tokens = LoadSample::unknown;
  std::optional<PrefixCache> prefix_cache;
  std::optional<std::size_t> adapters;  ///< LoRA adapters that it holds
};

/// One backend at the time of a scrape.
struct BackendSnapshot {
  std::string pool;
  std::string backend;
  std::string_view state;  ///< one of backend_states
  bool up = false;         ///< it may be given requests
  std::uint64_t in_flight = 0;
  std::uint64_t picks = 0;
  bool inspected = false;                           ///< what its engine reports of tokens is read
  std::array<std::uint64_t, fault_count> errors{};  ///< failed attempts, by fault
  std::uint64_t failed_responses = 0;               ///< see Load::failed_responses_total
  BackendTotals totals;                             ///< MetricsRegistry::backend_totals
  /// Health checks by result, including results not seen yet; empty where health is not checked.
  std::vector<std::pair<std::string_view, std::uint64_t>> checks;
  /// Ejections by reason.
  std::vector<std::pair<std::string_view, std::uint64_t>> ejections;
  /// The part in which the backend is slower than its pool; empty: none.
  std::string_view slow_part;
  PolledSnapshot polled;
  EngineStateSnapshot engine;
  /// Tokens of prompts in the engine's cache, as predicted and as its responses reported them;
  /// nothing where the pool predicts none.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> cached_tokens;
  /// The rung and the wait that the pool's scheduler expects; empty and unknown without one.
  std::string_view rung;
  double predicted_wait_seconds = LoadSample::unknown;
};

/// The sessions of a pool with `affinity`, and its requests of a session.
struct AffinitySnapshot {
  std::uint64_t sessions = 0;
  std::uint64_t hits = 0;       ///< requests that went to the backend of their session
  std::uint64_t misses = 0;     ///< requests that began a session
  std::uint64_t moves = 0;      ///< requests whose session went to another backend
  std::uint64_t evictions = 0;  ///< sessions that were forgotten for lack of room
};

/// Backends of a pool that a split names by their labels.
struct SubsetSnapshot {
  std::string name;             ///< "version=v7"
  std::size_t in_rotation = 0;  ///< backends that may get requests
  std::uint64_t fallbacks = 0;  ///< requests for them that other backends of the pool got
};

/// How the choices of a pool's shadow picker compare: see ShadowStats. Times are seconds.
struct ShadowSnapshot {
  std::string picker;
  std::uint64_t compared = 0;
  std::uint64_t agreed = 0;
  std::uint64_t unavailable = 0;
  double regret_sum = 0;
  double gain_sum = 0;
};

/// What the scheduler of a pool has done: see SchedulerStats. Times are seconds.
struct SchedulerSnapshot {
  std::uint64_t placed = 0;
  std::uint64_t refused = 0;
  std::uint64_t first_tokens = 0;
  double predicted_ttft_sum = 0;
  double ttft_sum = 0;
  double ttft_error_sum = 0;
  double prefill_sum = 0;
  double decode_sum = 0;
  std::size_t index_bytes = 0;
  std::optional<ShadowSnapshot> shadow;
};

/// One pool at the time of a scrape.
struct PoolSnapshot {
  std::string name;
  bool panics = false;
  std::optional<AffinitySnapshot> affinity;
  std::vector<SubsetSnapshot> subsets;
  std::optional<SchedulerSnapshot> scheduler;
};

/// What the workers' counters do not hold.
struct MetricsSnapshot {
  std::vector<std::string> tls_listeners;
  std::vector<PoolSnapshot> pools;
  std::vector<BackendSnapshot> backends;
  Duration loop_lag{};  ///< longest turn of any worker's event loop since the last scrape
  std::uint64_t memory_limit_bytes = 0;  ///< 0: none
  std::uint64_t memory_used_bytes = 0;
  std::uint64_t access_log_dropped = 0;
  std::uint64_t log_dropped = 0;                          ///< lines of the daemon's own log
  bool upgrade_ok = true;                                 ///< no upgrade failed, or a later one ran
  bool state_file_ok = true;                              ///< it was written, or is off
  bool config_reload_ok = true;                           ///< the last reload was accepted
  std::chrono::system_clock::time_point config_loaded{};  ///< of the active one; epoch: never
};

/// Supplies the snapshot of one scrape. Thread: the one that renders.
class Collector {
 public:
  virtual ~Collector() = default;
  virtual MetricsSnapshot collect() = 0;
};

inline constexpr std::string_view metrics_content_type = "text/plain; version=0.0.4; charset=utf-8";

/// The page in Prometheus text format 0.0.4. Series that are known from configuration are there
/// with 0 before anything happens. Takes tens of milliseconds for 1000 backends.
/// Thread: any but a worker's.
std::string render_metrics(const MetricsRegistry& metrics_registry, Collector& collector,
                           std::string_view version);

}  // namespace evenkeel
