// The queue of a pool: the requests that wait until a backend can start them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "evenkeel/backend/backend.h"
#include "evenkeel/backend/backend_observers.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/picker/hint.h"
#include "evenkeel/pool/placed_request.h"
#include "evenkeel/pool/pool.h"
#include "pool/slots_rule.h"
#include "pool/subset_queue.h"

namespace evenkeel {

/// The place of one request in the queue of its pool. Guarded by the lock of the Admission until it
/// no longer waits, except for `signal`. Shared with the message that tells the waiter's loop of
/// the end of the wait, which may arrive after the waiter is gone, and with the lease of a request
/// that a scheduler has started.
struct AdmissionTicket : Node, std::enable_shared_from_this<AdmissionTicket> {
  enum class Stage : std::uint8_t {
    arrives,
    waits,
    started,
    refused,    ///< its first token would come too late
    full,       ///< the queue is
    displaced,  ///< after waiting: it has made room for another
    left,
  };

  AdmissionTicket(std::shared_ptr<const PoolState> version, Loop& home_loop, const Hint& asked);

  bool is_scheduled() const { return placed.has_value(); }
  Duration waited() const { return started_at - joined; }

  std::shared_ptr<const PoolState> pool;  // the version for whose backends it waits
  const PoolState& home;                  // the version in which it arrived
  Hint hint;                              // what it asks, in terms of `pool`
  SubsetQueue* queue;                     // of `pool`
  Loop& loop;
  const std::uint64_t client;
  Stage stage = Stage::arrives;
  Instant joined{};
  Instant rank{};  // the smallest comes first
  Instant started_at{};
  BackendPtr backend;        // granted, and not yet taken
  Signal* signal = nullptr;  // the loop's thread only; null: nothing waits
  // Set only for a request that a scheduler starts:
  std::optional<PlacedRequest> placed;
  Duration retry_after{};                    // when refused
  bool is_sample = false;                    // its placing is recorded as a sample
  std::uint32_t shadow = Arrival::any_slot;  // where another picker would send it
  SlotSet only;                              // of hint.excluded.only(), if there is one
};

inline AdmissionTicket& ticket_of(Node* node) { return static_cast<AdmissionTicket&>(*node); }

/// Orders the requests that wait in all workers and versions of a pool: the most urgent one first,
/// of equals the one that came first. A less urgent request ages: each class counts as having come
/// a third of the queue's timeout after the one above, so none waits behind those that come much
/// later. A rule says which starts where.
///
/// Each subset of the pool has its own part of the queue, and so have the requests for the whole
/// pool: a subset whose backends are full takes no place from the others. Into a full part a
/// request comes only in place of a less urgent one, the newest of the least urgent, else of the
/// newest of the client that has the most there. The lock is taken only while requests wait for the
/// same backends, and by schedulers.
///
/// Thread: any.
class Admission final : public SlotQueue {
 public:
  using Stage = AdmissionTicket::Stage;

  /// True if any request waits.
  bool has_waiting() const { return waiting_marks() != 0; }
  /// True if requests wait that need a slot only.
  bool has_waiting_for_slots() const { return (waiting_marks() & ~SubsetQueue::scheduled) != 0; }
  /// True if requests wait that a scheduler starts.
  bool has_scheduled() const { return (waiting_marks() & SubsetQueue::scheduled) != 0; }
  /// True if requests wait that may use every backend of this queue: new ones wait behind them.
  bool has_waiting(const SubsetQueue& queue) const {
    return (waiting_marks() & (queue.mark | SubsetQueue::whole_pool)) != 0;
  }
  void offer(const SharedBackend& shared, Instant now) override;

  /// The request arrives, and starts if it can. Else it waits, or the queue is full. The result is
  /// one of `waits`, `started`, `refused` and `full`.
  Stage join(AdmissionTicket& ticket, Picker& picker, Instant now);
  /// See AdmissionRule.
  void recheck(AdmissionTicket& ticket, Instant now);
  /// Moves the requests that have arrived in version `home` on this loop, wait, and have not been
  /// tried anywhere, into the queue of a later version: as soon as that has a backend which may
  /// take them. Each keeps its rank. Thread: the loop's.
  void move(const PoolState& home, const Loop& loop, const std::shared_ptr<const PoolState>& to,
            Instant now);
  /// The same for one request. Thread: its loop's.
  void move(AdmissionTicket& ticket, const std::shared_ptr<const PoolState>& to, Instant now);

  QueueStats counts() const;
  struct Waiting {
    std::uint32_t same = 0;  ///< for the same subset, in any version of the pool
    std::uint32_t any = 0;   ///< for any backend of the pool
  };
  /// REQUIRES: `queue` is that of a subset.
  Waiting waiting_beside(const SubsetQueue& queue) const;
  /// The mark of a subset that the pool has not had. Thread: one at a time.
  std::uint64_t next_mark();
  AdmissionRule& slots_rule() { return slots_rule_; }

  // ---- for rules, under the lock ----

  std::mutex& mutex() const { return mutex_; }
  /// The request no longer waits: it has the slot. REQUIRES: `backend` is of its version.
  void start(AdmissionTicket& ticket, const BackendPtr& backend, Instant now);
  void refuse(AdmissionTicket& ticket, Duration retry_after);
  template <class Visit>
  void for_each_queue(Visit visit) const {
    for (Node* each = queues_.next; each != &queues_; each = each->next) {
      visit(static_cast<SubsetQueue&>(*each));
    }
  }

 private:
  friend class AdmissionWait;

  void enter(SubsetQueue& queue);
  void leave(SubsetQueue& queue);
  static void insert(AdmissionTicket& ticket);
  void end_wait(AdmissionTicket& ticket, Stage stage);
  void drop(AdmissionTicket& ticket, Stage stage, Instant now);
  void move_locked(AdmissionTicket& ticket, const std::shared_ptr<const PoolState>& to,
                   Instant now);
  std::uint32_t length_with(const SubsetQueue& queue) const;
  bool displace(const AdmissionTicket& ticket, Instant now);
  AdmissionTicket* least_urgent(const AdmissionTicket& ticket) const;
  AdmissionTicket* of_greediest(const AdmissionTicket& ticket) const;

  alignas(64) mutable std::mutex mutex_;
  Node queues_;  // of SubsetQueue, in which requests wait
  std::uint32_t length_ = 0;
  std::uint32_t marks_given_ = 0;
  SlotsRule slots_rule_{*this};
};

/// Keeps a request waiting while it lives. Dropping it gives up the place, and a slot that was not
/// taken.
///
/// Thread: the loop's.
class AdmissionWait {
 public:
  /// REQUIRES: the ticket waits.
  explicit AdmissionWait(std::shared_ptr<AdmissionTicket> ticket);
  AdmissionWait(const AdmissionWait&) = delete;
  AdmissionWait& operator=(const AdmissionWait&) = delete;
  ~AdmissionWait();

  bool waits() const;
  /// Waits for the end of `waits`; `Wake::expired` at the deadline.
  Signal::Wait wait(Instant deadline) { return signal_.wait(deadline); }
  /// Ends the wait: `waits` if that is by a timeout. After `started` the slot is the caller's.
  AdmissionTicket::Stage end(Instant now);

 private:
  Admission& admission() const { return ticket_->pool->admission(); }

  std::shared_ptr<AdmissionTicket> ticket_;
  Signal signal_;
  bool ended_ = false;
};

}  // namespace evenkeel
