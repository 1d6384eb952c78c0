// Holds requests while every backend that they may use is full.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "balance/queue_section.h"
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
/// come much later.
///
/// Each subset of the pool has its own part of the queue, and so have the requests for the whole
/// pool: a subset whose backends are full takes no place from the others, and they do not look at
/// its requests. Into a full part a request comes only in place of a less urgent one, the newest of
/// the least urgent, else of the newest of the client that has the most there. The lock is taken
/// only while requests wait for the same backends.
///
/// Thread: any.
class RequestQueue {
 public:
  class QueuedRequest;
  enum class Place : std::uint8_t { waiting, granted, displaced };

  bool has_waiters() const { return waiting_marks() != 0; }
  /// Requests wait that may use every backend of this section: new ones queue behind them.
  bool has_waiters(const QueueSection& section) const {
    return (waiting_marks() & (section.mark | QueueSection::whole_pool)) != 0;
  }
  /// Requests wait that may use this backend: its slots that become free are dispatched.
  bool is_awaited(const Load& load) const {
    const std::uint64_t waiting = waiting_marks();
    return waiting != 0 && (waiting & load.queue_marks()) != 0;
  }

  /// Grants the free slots of a backend to the waiting requests that may use them, in order.
  void dispatch(const Load& load, Instant now);

  /// A request that has waited in an earlier version of the pool has a slot of this one at once.
  void count_wait(Duration waited);

  QueueStats counts() const;
  struct Waiting {
    std::uint32_t same = 0;  ///< for the same subset, in any version of the pool
    std::uint32_t any = 0;   ///< for any backend of the pool
  };
  /// REQUIRES: `section` is that of a subset.
  Waiting waiting_beside(const QueueSection& section) const;
  /// For a subset that the pool has not had. Thread: one at a time.
  std::uint64_t next_mark();

 private:
  struct Ticket;
  class Order;
  enum class JoinResult { picked, queued, full };

  JoinResult join(Ticket& ticket, Picker& picker, Instant now);
  void recheck(Ticket& ticket, Picker& picker, Instant now);
  std::size_t dispatch_locked(const Load& load, Instant now);
  static bool should_pick(const Ticket& ticket);
  std::uint32_t length_with(const QueueSection& section) const;
  bool displace(const Ticket& ticket);
  Ticket* least_urgent(const Ticket& ticket) const;
  Ticket* of_greediest(const Ticket& ticket) const;
  void remove(Ticket& ticket);
  void enter(QueueSection& section);
  void leave(QueueSection& section);
  static void count_client(Ticket& ticket) noexcept;
  void count_wait_locked(Duration waited);
  std::uint64_t waiting_marks() const { return waiting_.load(std::memory_order_seq_cst); }
  template <class Visit>
  void for_each_section(Visit visit) const {
    for (Node* each = sections_.next; each != &sections_; each = each->next) {
      visit(static_cast<QueueSection&>(*each));
    }
  }
  static void wake(Ticket& ticket) noexcept;
  void grant(Ticket& ticket, const BackendPtr& backend);

  // The marks of the sections in which requests wait. Read by every request, written only while
  // backends are full.
  alignas(64) std::atomic<std::uint64_t> waiting_{0};

  alignas(64) mutable std::mutex mutex_;
  Node sections_;  // in which requests wait
  std::uint32_t length_ = 0;
  QueueStats counts_;
  std::uint32_t marks_given_ = 0;
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
