// What an inference engine says of itself besides its load.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace evenkeel {

/// The LoRA adapters that the requests in an engine use.
struct AdapterReport {
  /// hash_of their names: those of requests that run, then those of requests that wait.
  std::vector<std::uint64_t> in_use;
  /// Others that requests have used since the engine started, the last used first.
  std::vector<std::uint64_t> used_before{};
  std::uint32_t slots = 0;  ///< adapters that the engine keeps loaded; 0: unknown
};

/// A name by which requests ask for a LoRA adapter: its own, or another. Both are hashes of names.
struct AdapterName {
  std::uint64_t name = 0;
  std::uint64_t adapter = 0;  ///< its own name, as AdapterReport has it

  bool operator==(const AdapterName&) const = default;
};

/// One reading of an engine's page. NaN: unknown, which is never the same as 0.
struct EngineReport {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  double start_time = unknown;      ///< of the server's process, in seconds since 1970
  double work_done = unknown;       ///< a counter of any unit, which only a restart sets back
  double kv_tokens = unknown;       ///< that its KV caches hold, over all ranks
  double step_tokens = unknown;     ///< the most that one step computes
  double prefix_queried = unknown;  ///< tokens of prompts looked up in the prefix cache, a counter
  double prefix_hit = unknown;      ///< those of them that were found, a counter
  double awake = unknown;           ///< 0: it sleeps, and holds all requests until it is woken
  double adapter_slots = unknown;   ///< of engines that do not name the adapters in use
  std::optional<AdapterReport> adapters;  ///< nothing: it has no adapters, or does not say
};

}  // namespace evenkeel
