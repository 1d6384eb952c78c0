// What a pool's scheduler has learned, in a form that outlives the process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/backend/engine_run.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

/// A model of LeastSquares. Without samples nothing is known.
template <std::size_t N>
struct LearnedModel {
  using Vector = std::array<double, N>;

  Vector coefficients{};
  Vector max_variance{};
  std::array<Vector, N> covariance{};
  std::size_t samples = 0;
  double weight = 0;  ///< for how many of them it counts

  bool operator==(const LearnedModel&) const = default;
};

/// What was learned of one backend.
struct LearnedEngine {
  LearnedModel<3> step;
  LearnedModel<2> prefill;
  std::uint64_t kv_tokens = 0;         ///< that its KV cache holds; 0: unknown
  std::uint32_t step_tokens = 0;       ///< of one step; 0: unknown
  double index_capacity = 0;           ///< blocks; 0: unknown
  double tokens_per_block = 0;         ///< likewise
  double confirms_hits = 0;            ///< share of its responses, 0..1
  double streams = 1;                  ///< likewise
  double has_blocks = 1;               ///< likewise
  std::uint64_t finished = 0;          ///< requests
  double mean_prefill = 0;             ///< seconds; 0: unknown
  double mean_context = 0;             ///< tokens of a stream; 0: unknown
  std::optional<double> load_seconds;  ///< of an adapter

  EngineRun run;  ///< which has in its caches what follows
  struct Adapter {
    std::uint64_t name = 0;  ///< a hash
    double age = 0;          ///< seconds since it was used
    bool operator==(const Adapter&) const = default;
  };
  std::vector<Adapter> adapters;        ///< the last used first
  std::vector<std::uint64_t> prefixes;  ///< blocks of prompts, the last used first

  bool operator==(const LearnedEngine&) const = default;
};

/// What was learned of the requests of one pool, whichever backend they go to.
struct LearnedTraffic {
  double mean_prefill = 0;      ///< seconds; 0: unknown
  double tokens_per_event = 0;  ///< of streams; 0: unknown
  double cached_found = 0;      ///< tokens that engines had cached behind whole blocks ...
  double cached_possible = 0;   ///< ... and that they could have had
  struct OutputClass {
    std::uint64_t key = 0;  ///< of requests that are alike
    double outputs = 0;
    double mean = 0;  ///< tokens
    bool operator==(const OutputClass&) const = default;
  };
  std::vector<OutputClass> output_classes;
  std::vector<double> output_lengths;  ///< of the last responses, the last one last; tokens

  bool operator==(const LearnedTraffic&) const = default;
};

/// What a scheduler has learned.
struct LearnedScheduler {
  LearnedTraffic traffic;
  std::map<std::string, LearnedEngine> engines;  ///< by backend id
};

/// What an engine has learned as it is `passed` after it was collected: its caches are believed for
/// a minute, and where it tells when its process started, for an hour; speeds for a day.
/// Negative: the clock was set back, so nothing is.
void age(LearnedEngine& learned, Duration passed);

}  // namespace evenkeel
