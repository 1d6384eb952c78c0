// Runs an engine in real time: its steps take as long as StepCost computes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "evenkeel/base/loop.h"
#include "evenkeel/sim/engine.h"
#include "sim/engine_api.h"
#include "sim/freezable_timer.h"
#include "sim/server_statistics.h"

namespace evenkeel {

/// A request inside a running engine.
class Generation : public Sequence {
 public:
  virtual ~Generation() = default;
  /// Token `index` of the output was generated. Must not destroy any generation.
  virtual void on_token(std::uint32_t index, bool last) = 0;

  std::uint32_t max_tokens = 0;  ///< of the request; 0: none
  bool stops_naturally = false;  ///< rather than by max_tokens

 private:
  friend class EngineRunner;
  Instant submitted_{};
  Instant scheduled_{};
  Instant first_token_{};
  Instant last_token_{};
};

/// Drives one engine on a loop and counts. A step that follows another begins at the other's
/// modelled end, not when the process got to it: a late process catches up instead of drifting.
class EngineRunner final : private FreezableTimer::Runner {
 public:
  /// `speed` 10: ten times real time. `traits` outlives it.
  EngineRunner(Loop& loop, const EngineSpec& spec, const SimulatedEngine& traits, double speed);

  /// REQUIRES: the generation fits: prompt_tokens < max_tokens().
  void submit(Generation& generation);
  std::uint32_t max_tokens() const { return engine_->max_tokens(); }

  /// Makes steps take `factor` times as long, from the next one on.
  void set_slow_factor(double factor) { slow_factor_ = factor; }
  /// Stops time in the middle of a step, or continues it.
  void freeze(bool frozen) { timer_.freeze(frozen); }
  /// Wakes `waiter` after so many more tokens. Null: never.
  void wake_after_tokens(std::uint64_t tokens, Waiter* waiter);
  /// Starts as a new process: caches empty, counters zero. REQUIRES: no generation is active.
  void restart();

  const StepEngine& engine() const { return *engine_; }
  ServerStatistics& statistics() { return statistics_; }
  /// The gauges as the engine publishes them: live, or those of the last step at which it did
  /// (SimulatedEngine::publishes_gauges_by_step).
  Gauges gauges();
  GpuSnapshot gpu();
  double started_unix() const { return started_unix_; }
  /// See EngineSnapshot. Empty if the engine has no adapters.
  const std::map<AdapterUse, double>& adapter_uses() const { return adapter_uses_; }

  struct Lateness {
    std::uint64_t steps = 0;  ///< ended more than a millisecond late
    Duration max{};
    Duration dropped{};  ///< not caught up, since it was more than a second
  };
  const Lateness& lateness() const { return lateness_; }

 private:
  void advance() override;
  void postpone(Duration frozen_for) override;
  void begin_step(Instant at);
  void end_step();
  void record_lateness(Instant now);
  void observe(Generation& generation, bool last);
  void publish(const StepEngine::Step& step);
  Gauges live_gauges() const;
  void note_adapters();

  Loop& loop_;
  EngineSpec spec_;
  const SimulatedEngine& traits_;
  double speed_;
  double slow_factor_ = 1;
  std::unique_ptr<StepEngine> engine_;
  ServerStatistics statistics_;
  Utilization utilization_;
  std::map<AdapterUse, double> adapter_uses_;
  Instant started_;
  double started_unix_ = 0;

  FreezableTimer timer_;
  StepEngine::Step step_;
  Instant step_began_{};
  Instant step_ends_{};
  bool stepping_ = false;
  Lateness lateness_;

  std::uint64_t tokens_until_wake_ = 0;
  Waiter* token_waiter_ = nullptr;

  Gauges published_;
  std::uint32_t decode_steps_ = 0;
  Instant rate_began_{};
  std::uint64_t rate_tokens_ = 0;
  double rate_ = 0;
};

}  // namespace evenkeel
