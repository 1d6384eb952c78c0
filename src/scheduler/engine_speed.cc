#include "scheduler/engine_speed.h"

#include <algorithm>
#include <cmath>

namespace evenkeel {
namespace {

constexpr double context_unit = 1e3;  // tokens
constexpr double prompt_unit = 1e3;   // tokens
constexpr double pair_unit = 1e6;
constexpr double step_forgetting = 0.995;
constexpr double prefill_forgetting = 0.99;
constexpr double max_restored_weight = 10;  // samples
constexpr double response_noise = 0.1;      // of what the other model predicts

LeastSquares<3>::Vector step_prior(const EngineSpeed::Coefficients& prior) {
  return {prior.step, prior.per_stream, prior.per_context_token * context_unit};
}

LeastSquares<2>::Vector prefill_prior(const EngineSpeed::Coefficients& prior) {
  return {prior.per_prefill_token * prompt_unit, prior.per_attention_pair * pair_unit};
}

/// The deviation of a prediction, with what the model leaves out.
double deviation_of(const auto& prediction) {
  const double noise = response_noise * prediction.y;
  return std::sqrt(std::max(0.0, prediction.variance) + noise * noise);
}

}  // namespace

EngineSpeed::EngineSpeed(const Coefficients& prior, std::uint32_t step_tokens)
    : step_(step_prior(prior), step_forgetting),
      prefill_(prefill_prior(prior), prefill_forgetting) {
  set_step_tokens(step_tokens);
  read_models();
}

void EngineSpeed::reset(const Coefficients& prior, std::uint32_t step_tokens) {
  step_.reset(step_prior(prior));
  prefill_.reset(prefill_prior(prior));
  set_step_tokens(step_tokens);
  read_models();
}

void EngineSpeed::restore(const LearnedEngine& learned) {
  step_.restore(learned.step, max_restored_weight);
  prefill_.restore(learned.prefill, max_restored_weight);
  read_models();
}

void EngineSpeed::learn_step(double streams, double context_tokens, double seconds) {
  if (seconds <= 0) return;
  step_.learn({1, streams, context_tokens / context_unit}, seconds);
  read_models();
}

void EngineSpeed::learn_prefill(double uncached, double pairs, double seconds, double step) {
  prefill_.learn({uncached / prompt_unit, pairs / pair_unit}, std::max(seconds, 0.0), step);
  read_models();
}

void EngineSpeed::learn_response(const Work& work, double seconds) {
  const LeastSquares<3>::Vector steps = {work.steps, work.steps * work.streams,
                                         work.steps * work.context_tokens / context_unit};
  const LeastSquares<2>::Vector prompts = {work.uncached / prompt_unit, work.pairs / pair_unit};
  const auto of_steps = step_.prediction(steps);
  const auto of_prompts = prefill_.prediction(prompts);
  step_.learn_from(of_steps, seconds - of_prompts.y, deviation_of(of_prompts));
  prefill_.learn_from(of_prompts, seconds - of_steps.y, deviation_of(of_steps));
  read_models();
}

void EngineSpeed::read_models() {
  const auto& step = step_.coefficients();
  const auto& prefill = prefill_.coefficients();
  coefficients_ = {.step = step[0],
                   .per_stream = step[1],
                   .per_context_token = step[2] / context_unit,
                   .per_prefill_token = prefill[0] / prompt_unit,
                   .per_attention_pair = prefill[1] / pair_unit};
}

}  // namespace evenkeel
