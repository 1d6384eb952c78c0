// Where requests stand while every backend that they might use is full.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "evenkeel/balance/backend.h"
#include "evenkeel/balance/hint.h"
#include "evenkeel/balance/lease.h"
#include "evenkeel/balance/picker.h"
#include "evenkeel/balance/pool.h"
#include "evenkeel/base/loop.h"

namespace evenkeel {

/// First come, first served over all workers: whoever gives a place back hands it to the first in
/// line that may use it. The lock is touched only while somebody waits.
///
/// Thread: any.
class RequestQueue {
 public:
  class QueuedRequest;

  /// Somebody waits: newcomers line up, and places that come back are offered.
  bool has_waiters() const { return waiting_.load(std::memory_order_seq_cst) != 0; }

  /// Hands the free places of a backend to those who may use them, in their order.
  void dispatch(const Load& load, Instant now);

  QueueStats counts() const;

 private:
  struct Ticket;
  enum class JoinResult { picked, queued, full };

  JoinResult join(Ticket& ticket, Picker& picker, Instant now);
  void recheck(Ticket& ticket, Picker& picker, Instant now);
  std::size_t dispatch_locked(const Load& load, Instant now);
  bool should_pick(const Ticket& newcomer) const;
  void remove(Ticket& ticket);
  void grant(Ticket& ticket, const BackendPtr& backend);

  // Read by every request, written only while the pool is full.
  alignas(64) std::atomic<std::uint32_t> waiting_{0};

  alignas(64) mutable std::mutex mutex_;
  Node queue_;  // of Ticket
  std::uint32_t length_ = 0;
  Instant last_recheck_{};
  QueueStats counts_;
};

/// One request's stand in the line; leaves it when dropped, and gives back a place that was granted
/// but never taken.
///
/// Thread: the loop's.
class RequestQueue::QueuedRequest {
 public:
  /// REQUIRES: `state` and `loop` outlive the stand.
  QueuedRequest(const PoolState& state, Loop& loop, const Hint& hint);
  QueuedRequest(const QueuedRequest&) = delete;
  QueuedRequest& operator=(const QueuedRequest&) = delete;
  ~QueuedRequest();

  /// Lines up, unless there is a place for this request that nobody ahead may use. False: the line
  /// is full.
  bool join(Picker& picker, Instant now);
  bool granted() const;
  /// Waits for a grant; `Wake::expired` at the deadline.
  Signal::Wait wait(Instant deadline) { return signal_.wait(deadline); }
  /// Looks for places that became free without anybody giving them back: a back-off has ended.
  void recheck(Picker& picker, Instant now);
  /// Leaves the line with the place that was granted; null if none was.
  BackendPtr take(Instant now);

 private:
  RequestQueue& queue_;
  Signal signal_;
  std::shared_ptr<Ticket> ticket_;
  bool left_ = false;
};

}  // namespace evenkeel
