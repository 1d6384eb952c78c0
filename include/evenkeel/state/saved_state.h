// What a process leaves to the one that replaces it, or to the next one on this machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/inference/token_estimates.h"
#include "evenkeel/pool/affinity_table.h"
#include "evenkeel/pool/learned_state.h"
#include "evenkeel/scheduler/learned_scheduler.h"
#include "evenkeel/tenancy/quota_table.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

/// What operators have set, and what was learned of the backends. Backends are named by pool and
/// id.
struct SavedState {
  using Time = std::chrono::time_point<std::chrono::system_clock, std::chrono::milliseconds>;
  using Key = std::pair<std::string, std::string>;

  struct Weight {
    std::uint32_t weight = 0;
    std::uint32_t configured = 0;  ///< in the file; an override holds only while that stays
    bool operator==(const Weight&) const = default;
  };
  struct Observed {
    bool down = false;  ///< its health checks failed
    LearnedState learned;
    bool operator==(const Observed&) const = default;
  };
  using ObservedBackends = std::map<Key, Observed>;

  Time saved_at{};
  decltype(BuildInputs::drained) drained;
  std::map<Key, Time> drain_ends;  ///< of those that end by themselves
  std::map<Key, Weight> weights;
  /// The addresses of servers behind names whose id may not be enough to find them again, as
  /// `IP:port`.
  std::map<Key, std::string> addresses;
  ObservedBackends observed;
  /// What schedulers have learned: by pool, and of each backend.
  std::map<std::string, LearnedTraffic> traffic;
  std::map<Key, LearnedEngine> engines;
  /// Where the sessions of pools are pinned: by pool. Tags name backends in every process alike.
  std::map<std::string, std::vector<AffinityTable::Saved>> sessions;
  /// What was learned of the tokenizers of models: schedulers reckon in tokens.
  std::vector<TokenEstimates::Learned> tokenizers;
  /// What is used of limits.
  std::vector<QuotaTable::Saved> quotas;
  /// The trials of canaries that have ended, by `PoolSet::Canary::key`.
  std::map<std::uint64_t, CanaryVerdict> ended_trials;

  bool operator==(const SavedState&) const = default;
};

/// Writes the state as bytes, with a version and a checksum. Durations are rounded down to
/// milliseconds, and are 24 hours at most.
std::string to_bytes(const SavedState& state);

/// Accepts any bytes, and skips what only a newer version knows. Errors: they have another format
/// or are damaged.
Result<SavedState> parse_state(std::string_view bytes);

}  // namespace evenkeel
