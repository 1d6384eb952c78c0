// The parts of a scheduler's cost: for its rule and for its records.
#pragma once

#include <algorithm>

#include "scheduler/scheduler_state.h"

namespace evenkeel {

inline constexpr double max_lateness = 4;   // of the squared share of the TTFT budget
inline constexpr double memory_price = 50;  // for each share of the KV cache above `tight_memory`
inline constexpr double tight_memory = 0.95;

/// Parts of a cost, in seconds.
struct CostParts {
  double ttft = 0;
  double lateness = 0;
  double decode = 0;
  double memory = 0;
};

/// `per_target`: 1 / the target for the time to the first token. `output`: expected tokens.
inline CostParts parts_of(const Scheduler::State::Candidate& candidate, double tokens, double age,
                          double per_target, double output, double least_step) {
  const double ttft = candidate.wait + candidate.promised + candidate.prefill;
  const double budget = (age + ttft) * per_target;
  const double use = candidate.use + candidate.uncached * candidate.use_per_token;
  return {.ttft = ttft,
          .lateness = std::min(max_lateness, budget * budget),
          .decode = output * (candidate.decode_step - least_step +
                              candidate.step_per_context_token * tokens),
          .memory = memory_price * std::max(0.0, use - tight_memory)};
}

}  // namespace evenkeel
