#include "balance/engine_speed.h"

#include <algorithm>
#include <cmath>

namespace evenkeel {
namespace {

constexpr double context_unit = 1e3;  // tokens
constexpr double prompt_unit = 1e3;   // tokens
constexpr double pair_unit = 1e6;
constexpr double min_step = 5e-4;  // seconds; no engine is faster
constexpr double min_prefill = 2e-4;
constexpr double step_forgetting = 0.995;
constexpr double prefill_forgetting = 0.99;

LeastSquares<3>::Vector step_prior(const EngineSpeed::Coefficients& prior) {
  return {prior.step, prior.per_stream, prior.per_context_token * context_unit};
}

LeastSquares<2>::Vector prefill_prior(const EngineSpeed::Coefficients& prior) {
  return {prior.per_prefill_token * prompt_unit, prior.per_attention_pair * pair_unit};
}

}  // namespace

EngineSpeed::EngineSpeed(const Coefficients& prior, std::uint32_t step_tokens)
    : step_(step_prior(prior), step_forgetting),
      prefill_(prefill_prior(prior), prefill_forgetting),
      step_tokens_(std::max(step_tokens, 1u)) {}

void EngineSpeed::reset(const Coefficients& prior, std::uint32_t step_tokens) {
  step_.reset(step_prior(prior));
  prefill_.reset(prefill_prior(prior));
  step_tokens_ = std::max(step_tokens, 1u);
}

double EngineSpeed::step_seconds(double streams, double context_tokens) const {
  return std::max(min_step, step_.predict({1, streams, context_tokens / context_unit}));
}

double EngineSpeed::steps_of(double uncached) const { return std::ceil(uncached / step_tokens_); }

double EngineSpeed::prefill_seconds(double uncached, double cached, double step) const {
  const double pairs = uncached * (cached + uncached / 2);
  return std::max(min_prefill, steps_of(uncached) * step +
                                   prefill_.predict({uncached / prompt_unit, pairs / pair_unit}));
}

void EngineSpeed::learn_step(double streams, double context_tokens, double seconds) {
  if (seconds > 0) step_.learn({1, streams, context_tokens / context_unit}, seconds);
}

void EngineSpeed::learn_prefill(double uncached, double pairs, double seconds, double step) {
  prefill_.learn({uncached / prompt_unit, pairs / pair_unit}, std::max(seconds, 0.0), step);
}

EngineSpeed::Coefficients EngineSpeed::coefficients() const {
  const auto& step = step_.coefficients();
  const auto& prefill = prefill_.coefficients();
  return {.step = step[0],
          .per_stream = step[1],
          .per_context_token = step[2] / context_unit,
          .per_prefill_token = prefill[0] / prompt_unit,
          .per_attention_pair = prefill[1] / pair_unit};
}

}  // namespace evenkeel
