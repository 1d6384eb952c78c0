// One request of a pool whose scheduler places it (picker `expected-time`).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "evenkeel/base/clock.h"
#include "evenkeel/scheduler/decision.h"
#include "evenkeel/scheduler/scheduler.h"

namespace evenkeel {

class PoolScheduler;
class ScheduledPool;

/// A request from its arrival in its pool until its slot is returned. The reader of the response
/// tells the scheduler what comes. What is told after the slot was returned changes nothing.
///
/// Thread: its loop's; another one may place it.
class PlacedRequest {
 public:
  explicit PlacedRequest(std::shared_ptr<const ScheduledPool> pool);
  PlacedRequest(const PlacedRequest&) = delete;
  PlacedRequest& operator=(const PlacedRequest&) = delete;

  /// The first output of the response arrived.
  void first_token(Instant now);
  /// The response is not read: its first output will not be seen.
  void unseen();
  /// Notes one in `Scheduler::sampled_tokens`: `events` of the response had output so far, and the
  /// last came `gap` after the one before it. How many tokens an event has is learned.
  void output(std::uint32_t events, Duration gap, Instant now);
  /// The response has ended as it should. `events`: of a stream; else 0.
  void finished(Scheduler::Outcome outcome, std::uint32_t events, Instant now);
  /// Ends the request as its slot was returned, however the response ended. `unfinished`: what its
  /// record says if it has not finished.
  void released(Decision::State unfinished = Decision::State::failed);
  /// Why it was placed there; nothing if that is not recorded, or no more.
  std::optional<ExplainedDecision> explanation() const;

 private:
  friend class PoolScheduler;

  enum class Stage : std::uint8_t { waiting, placed, ended };

  std::shared_ptr<const ScheduledPool> pool_;  // keeps the slots of its backends
  PoolScheduler& scheduler_;

  // Guarded by the scheduler's lock until it is placed; then only its own thread changes them.
  Stage stage_ = Stage::waiting;
  bool first_token_seen_ = false;
  Scheduler::Ticket ticket_ = 0;
  Instant placed_at_{};
  Decision* decision_ = nullptr;  // null: nothing is recorded
  Duration predicted_ttft_{};
};

}  // namespace evenkeel
