// What a pool does when something happens to one of its backends.
#pragma once

#include <atomic>
#include <cstdint>

#include "evenkeel/backend/shared_backend.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

/// The requests of a pool that wait for slots of its backends.
///
/// Thread: any.
class SlotQueue {
 public:
  SlotQueue() = default;
  SlotQueue(const SlotQueue&) = delete;
  SlotQueue& operator=(const SlotQueue&) = delete;
  virtual ~SlotQueue() = default;

  /// True if requests wait that may use this backend: its slots that become free are offered.
  bool is_awaited(const SharedBackend& shared) const {
    const std::uint64_t waiting = waiting_marks();
    return waiting != 0 && (waiting & shared.slots.queue_marks()) != 0;
  }
  /// Grants the free slots of a backend to the waiting requests that may use them, in order.
  virtual void offer(const SharedBackend& shared, Instant now) = 0;

 protected:
  std::uint64_t waiting_marks() const { return waiting_.load(std::memory_order_seq_cst); }

  // The marks of the queues in which requests wait. Read by every request, written only while
  // requests wait.
  alignas(64) std::atomic<std::uint64_t> waiting_{0};
};

/// Learns of requests that fail on a backend.
///
/// Thread: any.
class FailureObserver {
 public:
  FailureObserver() = default;
  FailureObserver(const FailureObserver&) = delete;
  FailureObserver& operator=(const FailureObserver&) = delete;
  virtual ~FailureObserver() = default;

  /// Notes that a request has failed on this backend.
  virtual void on_failure(SharedBackend& shared, Instant now) = 0;
};

}  // namespace evenkeel
