// Holds requests while every backend that they may use is full.
#pragma once

#include <array>
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

/// A slot that becomes free goes to the first request that may use it: the most urgent one, of
/// equals the first that came, over all workers. A less urgent request ages: each class counts as
/// having come a third of the queue's timeout after the one above, so none waits behind those that
/// come much later. Into a full queue a request comes only in place of a less urgent one, the
/// newest of the least urgent. The lock is taken only while requests wait.
///
/// Thread: any.
class RequestQueue {
 public:
  class QueuedRequest;
  enum class Place : std::uint8_t { waiting, granted, displaced };

  /// Requests wait: new ones queue behind them, and slots that become free are dispatched.
  bool has_waiters() const { return waiting_.load(std::memory_order_seq_cst) != 0; }

  /// Grants the free slots of a backend to the waiting requests that may use them, in order.
  void dispatch(const Load& load, Instant now);

  QueueStats counts() const;

 private:
  struct Ticket;
  class Order;
  enum class JoinResult { picked, queued, full };

  JoinResult join(Ticket& ticket, Picker& picker, Instant now);
  void recheck(Ticket& ticket, Picker& picker, Instant now);
  std::size_t dispatch_locked(const Load& load, Instant now);
  bool should_pick(const Ticket& ticket) const;
  bool displace(Priority priority);
  void remove(Ticket& ticket);
  static void wake(Ticket& ticket);
  void grant(Ticket& ticket, const BackendPtr& backend);

  // Read by every request, written only while the pool is full.
  alignas(64) std::atomic<std::uint32_t> waiting_{0};

  alignas(64) mutable std::mutex mutex_;
  std::array<Node, priority_count> lines_;  // of Ticket, by priority
  std::uint32_t length_ = 0;
  Instant last_recheck_{};
  QueueStats counts_;
};

/// One request's place in the queue. Dropping it leaves the queue and returns a slot that was
/// granted but not taken.
///
/// Thread: the loop's.
class RequestQueue::QueuedRequest {
 public:
  /// REQUIRES: `state` and `loop` outlive it.
  QueuedRequest(const PoolState& state, Loop& loop, const Hint& hint);
  QueuedRequest(const QueuedRequest&) = delete;
  QueuedRequest& operator=(const QueuedRequest&) = delete;
  ~QueuedRequest();

  /// Enters the queue, unless there is a slot for this request that no request ahead may use.
  /// False: the queue is full.
  bool join(Picker& picker, Instant now);
  Place place() const;
  /// Waits for the end of `Place::waiting`; `Wake::expired` at the deadline.
  Signal::Wait wait(Instant deadline) { return signal_.wait(deadline); }
  /// Looks for slots that became free without a release, as when a back-off ends.
  void recheck(Picker& picker, Instant now);
  /// Leaves the queue with the slot that was granted; null if none was.
  BackendPtr take(Instant now);

 private:
  RequestQueue& queue_;
  Signal signal_;
  std::shared_ptr<Ticket> ticket_;
  bool left_ = false;
};

}  // namespace evenkeel
