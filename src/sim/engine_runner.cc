#include "sim/engine_runner.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace evenkeel {
namespace {

constexpr Duration late = std::chrono::milliseconds(1);
constexpr Duration max_caught_up = std::chrono::seconds(1);
constexpr int max_steps_at_once = 64;  // lets connections be served in between
constexpr std::uint32_t published_decode_interval = 40;

}  // namespace

EngineRunner::EngineRunner(Loop& loop, const EngineSpec& spec, const SimulatedEngine& traits,
                           double speed)
    : loop_(loop),
      spec_(spec),
      traits_(traits),
      speed_(speed),
      engine_(std::make_unique<StepEngine>(spec)),
      statistics_(traits.buckets, spec.max_model_tokens),
      utilization_(loop.now()),
      started_(loop.now()),
      started_unix_(unix_seconds()),
      timer_(loop, *this) {}

void EngineRunner::restart() {
  timer_.disarm();
  stepping_ = false;
  engine_ = std::make_unique<StepEngine>(spec_);
  statistics_ = ServerStatistics(traits_.buckets, spec_.max_model_tokens);
  started_ = loop_.read_clock();
  started_unix_ = unix_seconds();
  utilization_ = Utilization(started_);
  adapter_uses_.clear();
  published_ = {};
}

void EngineRunner::submit(Generation& generation) {
  generation.submitted_ = loop_.read_clock();
  engine_->submit(generation);
  // The step begins after everything that arrives in this turn of the loop.
  if (!stepping_) timer_.wake_soon();
}

void EngineRunner::advance() {
  const Instant now = loop_.read_clock();
  if (!stepping_) begin_step(now);
  if (stepping_ && step_ends_ <= now) record_lateness(now);
  for (int steps = 0; stepping_ && step_ends_ <= now && steps < max_steps_at_once; ++steps) {
    end_step();
  }
  if (stepping_) timer_.arm(step_ends_);
}

void EngineRunner::postpone(Duration frozen_for) {
  if (!stepping_) return;
  step_began_ += frozen_for;
  step_ends_ += frozen_for;
}

void EngineRunner::begin_step(Instant at) {
  const auto step = engine_->start_step();
  if (spec_.adapters > 0) note_adapters();
  if (!step) {
    publish({});
    return;
  }
  step_ = *step;
  step_began_ = at;
  const std::chrono::duration<double> length(step_.seconds * slow_factor_ / speed_);
  step_ends_ = at + std::chrono::duration_cast<Duration>(length);
  stepping_ = true;

  const auto running = engine_->running_sequences();
  for (Sequence* sequence : running.last(std::min<std::size_t>(step_.admitted, running.size()))) {
    auto& generation = static_cast<Generation&>(*sequence);
    if (generation.scheduled_ != Instant{}) continue;  // scheduled before it was preempted
    generation.scheduled_ = at;
    statistics_.cached_tokens += generation.cached_tokens();
  }
}

/// Notes the adapters in use with each step, as vLLM does.
void EngineRunner::note_adapters() {
  AdapterUse use;
  const auto add = [](std::vector<std::uint32_t>& into, const Sequence* sequence) {
    const bool is_new = std::ranges::find(into, sequence->adapter) == into.end();
    if (sequence->adapter != 0 && is_new) into.push_back(sequence->adapter);
  };
  for (const Sequence* each : engine_->running_sequences()) add(use.running, each);
  for (const Sequence* each : engine_->waiting_sequences()) add(use.waiting, each);
  adapter_uses_[std::move(use)] = unix_seconds();
}

void EngineRunner::record_lateness(Instant now) {
  const Duration behind = now - step_ends_;
  if (behind > late) ++lateness_.steps;
  lateness_.max = std::max(lateness_.max, behind);
  if (behind > max_caught_up) {
    lateness_.dropped += behind;
    step_ends_ = now;
  }
}

void EngineRunner::end_step() {
  stepping_ = false;
  const auto tokens = engine_->finish_step();
  for (const StepEngine::Token& token : tokens) {
    if (token.sequence == nullptr) continue;
    auto& generation = static_cast<Generation&>(*token.sequence);
    observe(generation, token.last);
    generation.on_token(token.index, token.last);
  }
  ++statistics_.steps;
  statistics_.generated_tokens += tokens.size();
  statistics_.preemptions = engine_->totals().preemptions;
  statistics_.adapter_loads = engine_->totals().adapter_loads;
  statistics_.iteration_tokens.observe(step_.prefill_tokens + step_.decodes);
  utilization_.busy(step_began_, step_ends_);
  rate_tokens_ += tokens.size();
  publish(step_);

  if (token_waiter_ != nullptr) {
    tokens_until_wake_ -= std::min<std::uint64_t>(tokens_until_wake_, tokens.size());
    if (tokens_until_wake_ == 0) loop_.wake_soon(*std::exchange(token_waiter_, nullptr));
  }
  begin_step(step_ends_);
}

void EngineRunner::observe(Generation& generation, bool last) {
  ServerStatistics& s = statistics_;
  if (generation.first_token_ == Instant{}) {
    generation.first_token_ = step_ends_;
    s.prompt_tokens += generation.prompt_tokens;
    s.time_to_first_token.observe(seconds_of(step_ends_ - generation.submitted_));
  } else {
    s.inter_token_latency.observe(seconds_of(step_ends_ - generation.last_token_));
  }
  generation.last_token_ = step_ends_;
  if (!last) return;

  const double queued = seconds_of(generation.scheduled_ - generation.submitted_);
  const double prefill = seconds_of(generation.first_token_ - generation.scheduled_);
  const double decode = seconds_of(step_ends_ - generation.first_token_);
  (generation.stops_naturally ? s.finished_stop : s.finished_length) += 1;
  s.queue_seconds += queued;
  s.prefill_seconds += prefill;
  s.decode_seconds += decode;
  s.queue_time.observe(queued);
  s.prefill_time.observe(prefill);
  s.decode_time.observe(decode);
  s.inference_time.observe(prefill + decode);
  s.e2e_latency.observe(queued + prefill + decode);
  s.request_prompt_tokens.observe(generation.prompt_tokens);
  s.request_generation_tokens.observe(generation.generated());
  if (generation.max_tokens > 0) s.request_max_tokens.observe(generation.max_tokens);
  if (generation.generated() > 1) {
    s.time_per_output_token.observe(decode / (generation.generated() - 1));
  }
}

void EngineRunner::wake_after_tokens(std::uint64_t tokens, Waiter* waiter) {
  tokens_until_wake_ = tokens;
  token_waiter_ = waiter;
}

Gauges EngineRunner::live_gauges() const {
  return {.running = engine_->running(),
          .waiting = engine_->waiting(),
          .deferred = engine_->deferred(),
          .kv_cache_ratio = engine_->kv_cache_ratio(),
          .context_tokens = engine_->context_tokens(),
          .reserved_tokens = engine_->reserved_tokens(),
          .generated_per_second = rate_};
}

void EngineRunner::publish(const StepEngine::Step& step) {
  const Instant now = step_ends_;
  if (now - rate_began_ >= std::chrono::seconds(1)) {
    rate_ = static_cast<double>(rate_tokens_) / seconds_of(now - rate_began_);
    rate_began_ = now;
    rate_tokens_ = 0;
  }
  if (!traits_.publishes_gauges_by_step) return;
  const bool idle = step.prefill_tokens + step.decodes == 0;
  if (step.decodes > 0) ++decode_steps_;
  if (idle || step.prefill_tokens > 0 || decode_steps_ % published_decode_interval == 0) {
    published_ = live_gauges();
  }
}

Gauges EngineRunner::gauges() {
  if (traits_.publishes_gauges_by_step) return published_;
  Gauges gauges = live_gauges();
  if (loop_.read_clock() - rate_began_ > std::chrono::seconds(2)) gauges.generated_per_second = 0;
  return gauges;
}

GpuSnapshot EngineRunner::gpu() {
  const Instant now = loop_.read_clock();
  return {.utilization_ratio = utilization_.ratio(now),
          .uptime_seconds = seconds_of(now - started_),
          .busy_seconds = seconds_of(utilization_.total())};
}

}  // namespace evenkeel
