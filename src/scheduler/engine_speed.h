// How fast one engine computes, learned from the times of its tokens.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "scheduler/least_squares.h"

namespace evenkeel {

/// The two linear models of an engine that batches continuously; all times in seconds.
///
///   step    tau(n, C) = phi0 + phi1 n + phi2 C          n streams that decode, C tokens of context
///   prefill S(u, h)   = ceil(u / B) tau + th1 u + th2 u (h + u / 2)
///                       u tokens to compute, h tokens cached before them, B tokens in a step
///
/// B only affects the first term. Sources: the step time of chunked prefill (Agrawal et al.,
/// Sarathi-Serve, OSDI 2024) is linear in the tokens of the batch, in the keys and values it reads,
/// and in the pairs that attention compares.
///
/// Thread: one at a time.
class EngineSpeed {
 public:
  /// Coefficients before anything is known: those of no engine in particular.
  struct Coefficients {
    double step = 0.03;                ///< phi0
    double per_stream = 5e-5;          ///< phi1
    double per_context_token = 1e-7;   ///< phi2
    double per_prefill_token = 9e-5;   ///< th1
    double per_attention_pair = 2e-9;  ///< th2
  };

  EngineSpeed() : EngineSpeed(Coefficients{}, 8192) {}
  EngineSpeed(const Coefficients& prior, std::uint32_t step_tokens);

  /// Starts again from this prior.
  void reset(const Coefficients& prior, std::uint32_t step_tokens);
  void learned(LearnedEngine& into) const {
    into.step = step_.learned();
    into.prefill = prefill_.learned();
  }
  /// Continues with the models, which a few samples of this process may overrule. One that is not
  /// possible is as it was before.
  void restore(const LearnedEngine& learned);
  void set_step_tokens(std::uint32_t step_tokens) {
    steps_per_token_ = 1.0 / std::max(step_tokens, 1u);
  }

  double step_seconds(double streams, double context_tokens) const {
    return std::max(min_step, coefficients_.step + streams * coefficients_.per_stream +
                                  context_tokens * coefficients_.per_context_token);
  }
  /// S at one tau.
  struct Prefill {
    double step = 0;
    double per_token = 0;
    double per_pair = 0;
    double steps_per_token = 0;

    /// ceil(u / B).
    double steps_of(double uncached) const {
      constexpr double rounding = 1e-9;
      const double exact = uncached * steps_per_token - rounding;
      const auto whole = static_cast<double>(static_cast<std::int64_t>(exact));
      return whole < exact ? whole + 1 : whole;  // std::ceil is a call
    }
    double seconds(double uncached, double cached) const {
      const double pairs = uncached * (cached + uncached / 2);
      return std::max(min_prefill,
                      steps_of(uncached) * step + uncached * per_token + pairs * per_pair);
    }
  };
  /// `step`: step_seconds() now.
  Prefill prefill(double step) const {
    return {.step = step,
            .per_token = coefficients_.per_prefill_token,
            .per_pair = coefficients_.per_attention_pair,
            .steps_per_token = steps_per_token_};
  }
  double prefill_seconds(double uncached, double cached, double step) const {
    return prefill(step).seconds(uncached, cached);
  }
  double steps_of(double uncached) const { return prefill(0).steps_of(uncached); }

  /// A token came `seconds` after the one before it, and no prompt was computed in between.
  void learn_step(double streams, double context_tokens, double seconds);
  /// Prompts of this much work took so long, without their steps' tau. For several prompts that
  /// were computed together, `uncached` and `pairs` (u (h + u / 2)) are sums.
  /// Engines take up prompts and show tokens between steps, so the time is only known to a `step`.
  void learn_prefill(double uncached, double pairs, double seconds, double step);
  /// What an engine did while it had a request, for this request and all others.
  struct Work {
    double steps = 0;
    double streams = 0;         ///< of a step, on average
    double context_tokens = 0;  ///< likewise
    double uncached = 0;        ///< tokens of prompts that were computed in those steps
    double pairs = 0;           ///< of those prompts, as above
  };
  /// Learns from the time of that work: all that a response tells whose tokens are not seen. Each
  /// model takes its own uncertain part of the error: a decoupled Kalman filter (Puskorius,
  /// Feldkamp, Decoupled Extended Kalman Filter Training of Feedforward Layered Networks, 1991).
  void learn_response(const Work& work, double seconds);

  const Coefficients& coefficients() const { return coefficients_; }
  std::size_t prefill_samples() const { return prefill_.samples(); }
  std::size_t step_samples() const { return step_.samples(); }

 private:
  static constexpr double min_step = 1e-4;  // seconds; no engine is faster
  static constexpr double min_prefill = 1e-4;

  void read_models();

  Coefficients coefficients_;  // of the models below, for predictions
  double steps_per_token_ = 0;
  // The models, in thousands of tokens and millions of pairs: numbers of similar size.
  LeastSquares<3> step_;
  LeastSquares<2> prefill_;
};

}  // namespace evenkeel
