// Batches in real time: they are made when the batcher says and end when the model's cost says.
#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "evenkeel/base/loop.h"
#include "sim/dynamic_batcher.h"
#include "sim/freezable_timer.h"
#include "sim/server_statistics.h"

namespace evenkeel {

class BatchRunner;

/// A request that is run in a batch. Dropping it while it waits takes it out of the line; what an
/// instance has begun, it ends.
class BatchedRequest : private QueuedRequest {
 public:
  /// REQUIRES: runner.fits(size).
  BatchedRequest(BatchRunner& runner, std::uint32_t size);
  BatchedRequest(const BatchedRequest&) = delete;
  ~BatchedRequest();

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
class BatchRunner final : private FreezableTimer::Runner {
 public:
  /// `speed` 10: ten times faster than life. `statistics` outlives it.
  BatchRunner(Loop& loop, const BatchingSpec& spec, double speed, ServerStatistics& statistics);

  bool fits(std::uint32_t items) const { return batcher_.fits(items); }
  std::size_t waiting() const { return batcher_.waiting(); }
  std::size_t running() const { return running_.size(); }
  /// Batches take so many times as long, from the next one on.
  void set_slow_factor(double factor) { slow_factor_ = factor; }
  /// Stops in the middle of batches, or goes on with them.
  void freeze(bool frozen) { timer_.freeze(frozen); }
  double busy_ratio(Instant now) { return utilization_.ratio(now); }
  double busy_seconds() const;

 private:
  friend class BatchedRequest;

  struct Batch {
    Instant began{};
    Instant ends{};
    std::vector<BatchedRequest*> executions;  // null: dropped meanwhile
    std::uint32_t items = 0;
  };
  void submit(BatchedRequest& request);
  void cancel(BatchedRequest& request);
  void advance() override;
  void postpone(Duration frozen_for) override;
  void end(Batch& batch);
  Instant begin_batches(Instant now);
  void record_busy(Instant until);

  Loop& loop_;
  DynamicBatcher batcher_;
  double speed_;
  std::uint32_t instances_;
  ServerStatistics& statistics_;
  double slow_factor_ = 1;
  std::list<Batch> running_;
  Utilization utilization_;
  Instant busy_since_{};  // or counted until; meaningful while something runs
  FreezableTimer timer_;
};

}  // namespace evenkeel
