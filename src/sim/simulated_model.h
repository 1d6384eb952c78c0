// A model on a simulated engine: what every engine's API computes its answers with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/sim/simulators.h"
#include "sim/batch_runner.h"
#include "sim/completion.h"
#include "sim/engine_api.h"
#include "sim/engine_runner.h"
#include "sim/openai_request.h"
#include "sim/sim_state.h"

namespace evenkeel {

/// Sums for the report, over every process that this server pretends to have been.
struct SimTotals {
  std::uint64_t requests = 0;
  std::uint64_t failed = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t generated_tokens = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t adapter_loads = 0;
  std::uint64_t steps = 0;
};

/// Requests that their clients left. A delay counts from the close's arrival in the kernel to the
/// moment when the engine was free of the request.
struct SimAborts {
  std::uint64_t count = 0;
  double last_seconds = 0;
  double max_seconds = 0;
  double sum_seconds = 0;
  double last_unix = 0;
};

/// One model with its engine, its batches and its faults. Thread: the loop's, but for the
/// constructor, which comes before the loop runs.
class SimulatedModel final : private CompletionObserver {
 public:
  /// `preset` and `traits` are those that the options name; they and the options outlive it.
  SimulatedModel(Loop& loop, const SimulatorOptions& options, const Preset& preset,
                 const SimulatedEngine& traits);
  SimulatedModel(const SimulatedModel&) = delete;

  Loop& loop() { return loop_; }
  const std::string& name() const { return name_; }
  /// The number of a LoRA adapter, from 1; 0: it has none of that name.
  std::uint32_t adapter_named(std::string_view name) const;
  const SimulatorOptions& options() const { return options_; }
  const Preset& preset() const { return preset_; }
  const SimulatedEngine& traits() const { return traits_; }
  EngineRunner& runner() { return runner_; }
  const SimState& state() const { return state_; }
  /// True if the head of a stream comes with the first token.
  bool sends_head_with_first_token() const {
    return options_.stream_head == StreamHead::as_engine
               ? traits_.head_with_first_token
               : options_.stream_head == StreamHead::with_first_token;
  }
  bool sleeping() const { return state_.fault == SimFault::sleep; }
  bool loading() const { return state_.fault == SimFault::loading; }

  /// Applies the part of a fault that is in the engine: its speed, its halt, its memory.
  void set_state(const SimState& state);
  /// Starts as a new process: caches empty, counters zero. `disconnect` ends every connection; the
  /// requests that it drops do not count as aborted.
  template <class Disconnect>
  void restart(const Disconnect& disconnect) {
    previous_totals_ = totals();
    restarting_ = true;
    disconnect();
    restarting_ = false;
    runner_.restart();
  }

  /// The failure that a fault demands of an inference request now; else nothing.
  std::optional<ApiError> injected_failure() const;
  void count_failed() { ++runner_.statistics().failed; }
  /// Appends a plan for each choice of one prompt. An error: the prompt does not fit the model.
  std::optional<ApiError> plan(const OpenAiRequest& request, const Prompt& prompt,
                               const CompletionHead& head, std::vector<ChoiceSpec>& plans);
  /// Starts to generate. The result must not outlive this object.
  std::unique_ptr<Completion> start(std::vector<ChoiceSpec> plans, bool streams, int client_fd);

  /// True if one batch can hold so many items.
  bool fits_batch(std::uint32_t items) const { return batches_.fits(items); }
  /// Waits for a batch with these items and for its end. False: the queue is full.
  Task<bool> run_batch(std::uint32_t items, int client_fd);

  EngineSnapshot snapshot();
  SimTotals totals();
  const SimAborts& aborts() const { return aborts_; }
  std::uint64_t completed_requests() const { return completed_; }

 private:
  class BatchOutcome;

  void completed() override { ++completed_; }
  void aborted(int client_fd) override;
  bool out_of_memory() const;

  Loop& loop_;
  const SimulatorOptions& options_;
  const Preset& preset_;
  const SimulatedEngine& traits_;
  std::string name_;
  EngineRunner runner_;
  BatchRunner batches_;
  SimState state_;
  Instant memory_full_since_ = never;
  SimTotals previous_totals_;  // of the processes before this one
  std::uint64_t completed_ = 0;
  SimAborts aborts_;
  bool restarting_ = false;
};

}  // namespace evenkeel
