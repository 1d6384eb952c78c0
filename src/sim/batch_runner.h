// Batches in real time: they are made when the batcher says and end when the model's cost says.
#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "evenkeel/base/loop.h"
#include "sim/alarm.h"
#include "sim/dynamic_batcher.h"
#include "sim/statistics.h"

namespace evenkeel {

class BatchRunner;

/// A request that is run in a batch. Dropping it while it waits takes it out of the line; what an
/// instance has begun, it ends.
class Execution : private Queued {
 public:
  /// REQUIRES: runner.fits(size).
  Execution(BatchRunner& runner, std::uint32_t size);
  Execution(const Execution&) = delete;
  ~Execution();

  /// The line was full: it will never be run.
  bool rejected() const { return state_ == State::rejected; }
  bool finished() const { return state_ == State::finished; }
  /// Raised when it is finished.
  Signal& progress() { return progress_; }

 private:
  friend class BatchRunner;
  enum class State : std::uint8_t { rejected, waiting, running, finished };

  BatchRunner& runner_;
  State state_ = State::waiting;
  Signal progress_;
};

/// Drives a batcher and its instances on a loop, and counts as Triton does. Thread: the loop's.
class BatchRunner {
 public:
  /// `speed` 10: ten times faster than life. `statistics` outlives it.
  BatchRunner(Loop& loop, const BatchingSpec& spec, double speed, Statistics& statistics);

  bool fits(std::uint32_t items) const { return batcher_.fits(items); }
  std::size_t waiting() const { return batcher_.waiting(); }
  std::size_t running() const { return running_.size(); }
  /// Batches take so many times as long, from the next one on.
  void set_slow_factor(double factor) { slow_factor_ = factor; }
  /// Stops in the middle of batches, or goes on with them.
  void freeze(bool frozen);
  double busy_ratio(Instant now) { return utilization_.ratio(now); }
  double busy_seconds() const;

 private:
  friend class Execution;

  struct Batch {
    Instant began{};
    Instant ends{};
    std::vector<Execution*> executions;  // null: dropped meanwhile
    std::uint32_t items = 0;
  };
  struct Clockwork : Alarm {
    Clockwork(Loop& loop, BatchRunner& owner)
        : Alarm(loop, [](Alarm& self) { static_cast<Clockwork&>(self).runner.turn(); }),
          runner(owner) {}
    BatchRunner& runner;
  };
  struct Start : Waiter {
    explicit Start(BatchRunner& owner)
        : Waiter([](Waiter& self) { static_cast<Start&>(self).runner.turn(); }), runner(owner) {}
    BatchRunner& runner;
  };

  void submit(Execution& execution);
  void withdraw(Execution& execution);
  void turn();
  void end(Batch& batch);
  Instant begin_batches(Instant now);
  void note_busy(Instant until);

  Loop& loop_;
  DynamicBatcher batcher_;
  double speed_;
  std::uint32_t instances_;
  Statistics& statistics_;
  double slow_factor_ = 1;
  bool frozen_ = false;
  Instant frozen_at_{};
  std::list<Batch> running_;
  Utilization utilization_;
  Instant busy_since_{};  // or counted until; meaningful while something runs
  Start start_{*this};
  Clockwork alarm_;
};

}  // namespace evenkeel
