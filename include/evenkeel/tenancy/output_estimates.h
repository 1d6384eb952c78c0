// How long the output of a request may get, before it is there.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "evenkeel/http/inference_info.h"

namespace evenkeel {

/// Learns the length that 95 % of each model's outputs do not exceed, in tokens. Each output moves
/// the estimate by a share of itself, up nineteen times as far as down, so that it rests where one
/// output in twenty is longer (stochastic approximation of a quantile, Robbins and Monro 1951).
/// Holds a fixed number of models: those whose names hash alike share an estimate.
///
/// Thread: any; takes no lock.
class OutputEstimates {
 public:
  /// The least value, and that for a model that nothing is known of: clients could teach a small
  /// one with short outputs, and then have long ones pass a limit together.
  static constexpr double default_tokens = 1024;

  /// True if requests of this kind have an output that is counted in tokens.
  static bool are_of(InferenceTask task) {
    return task == InferenceTask::chat || task == InferenceTask::completion;
  }

  /// The most tokens that the request is likely to generate: of all its choices.
  std::uint64_t tokens_of(const InferenceRequest& request) const;
  /// The request has generated so many.
  void learn(const InferenceRequest& request, std::uint64_t tokens);

 private:
  std::atomic<float>& of(std::string_view model);

  std::array<std::atomic<float>, 256> estimates_{};  // 0: nothing was learned
};

}  // namespace evenkeel
