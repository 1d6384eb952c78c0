// Runs batches in real time: a DynamicBatcher forms them, BatchingSpec gives their duration.
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

/// A request that runs in a batch. Destroying it while it waits removes it from the queue; a batch
/// that has started runs to its end.
class BatchedRequest : private QueuedRequest {
 public:
  /// REQUIRES: runner.fits(size).
  BatchedRequest(BatchRunner& runner, std::uint32_t size);
  BatchedRequest(const BatchedRequest&) = delete;
  ~BatchedRequest();

  /// True if the queue was full: the request will not run.
  bool rejected() const { return state_ == State::rejected; }
  bool finished() const { return state_ == State::finished; }
  /// Raised when it has finished.
  Signal& progress() { return progress_; }

 private:
  friend class BatchRunner;
  enum class State : std::uint8_t { rejected, waiting, running, finished };

  BatchRunner& runner_;
  State state_ = State::waiting;
  Signal progress_;
};

/// Drives a batcher and its instances on a loop and counts as Triton does. Thread: the loop's.
class BatchRunner final : private FreezableTimer::Runner {
 public:
  /// `speed` 10: ten times real time. `statistics` outlives it.
  BatchRunner(Loop& loop, const BatchingSpec& spec, double speed, ServerStatistics& statistics);

  bool fits(std::uint32_t items) const { return batcher_.fits(items); }
  std::size_t waiting() const { return batcher_.waiting(); }
  std::size_t running() const { return running_.size(); }
  /// Makes batches take `factor` times as long, from the next one on.
  void set_slow_factor(double factor) { slow_factor_ = factor; }
  /// Stops time in the middle of batches, or continues them.
  void freeze(bool frozen) { timer_.freeze(frozen); }
  double busy_ratio(Instant now) { return utilization_.ratio(now); }
  double busy_seconds() const;

 private:
  friend class BatchedRequest;

  struct Batch {
    Instant began{};
    Instant ends{};
    std::vector<BatchedRequest*> executions;  // null: destroyed meanwhile
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
  Instant busy_since_{};  // start of the busy time not yet counted; valid while a batch runs
  FreezableTimer timer_;
};

}  // namespace evenkeel
