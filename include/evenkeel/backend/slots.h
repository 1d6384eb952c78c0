// The slots of a backend: its requests in flight, counted over all workers, and their limit.
#pragma once

#include <atomic>
#include <cstdint>

#include "evenkeel/base/shared_count.h"

namespace evenkeel {

/// Thread: any, except where noted.
class Slots {
 public:
  std::uint32_t in_flight() const { return in_flight_.load(std::memory_order_relaxed); }

  /// True if a slot is free.
  /// Sequentially consistent, as are `release` and the queue's counter: when a request begins to
  /// wait while a slot becomes free, at least one of the two sees the other.
  bool has_room() const {
    const std::uint32_t limit = this->limit();
    return limit == 0 || in_flight_.load(std::memory_order_seq_cst) < limit;
  }

  /// Takes a slot if there is one. The count never exceeds the limit, not even for a moment: an
  /// excess that is undone later could hide a free slot from a request that then waits for ever.
  bool try_acquire() {
    const std::uint32_t limit = this->limit();
    if (limit == 0) {
      in_flight_.fetch_add(1, std::memory_order_relaxed);
    } else {
      std::uint32_t seen = in_flight_.load(std::memory_order_relaxed);
      do {
        if (seen >= limit) return false;
      } while (!in_flight_.compare_exchange_weak(seen, seen + 1, std::memory_order_relaxed));
    }
    picks_total_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  void release() { in_flight_.fetch_sub(1, std::memory_order_seq_cst); }
  std::uint64_t picks_total() const { return picks_total_.load(std::memory_order_relaxed); }

  /// Number of slots in the active configuration, or what SlowStart leaves of them; 0: no limit.
  std::uint32_t limit() const { return limit_.load(std::memory_order_relaxed); }
  void set_limit(std::uint32_t limit) { limit_.store(limit, std::memory_order_seq_cst); }
  /// True if the limit is the share that SlowStart gives it for now. Thread: the control thread.
  bool ramps() const { return ramps_; }
  void set_ramps(bool ramps) { ramps_ = ramps; }

  /// Bits of the queues whose requests the backend may serve: see Admission. Marks are
  /// never taken away.
  std::uint64_t queue_marks() const { return queue_marks_.load(std::memory_order_relaxed); }
  void add_queue_mark(std::uint64_t mark) {
    queue_marks_.fetch_or(mark, std::memory_order_relaxed);
  }

  /// The requests in flight for which it waits: their clients have not sent their bodies yet. Only
  /// counted in pools that notice silence.
  SharedCount& awaiting_clients() { return awaiting_clients_; }
  /// The other requests in flight: it may have to answer them, or does not read their bodies.
  std::uint32_t in_its_hands() const {
    const std::uint32_t waiting = awaiting_clients_.value();
    const std::uint32_t all = in_flight();
    return all > waiting ? all - waiting : 0;
  }

 private:
  std::atomic<std::uint32_t> in_flight_{0};
  std::atomic<std::uint32_t> limit_{0};
  std::atomic<std::uint64_t> picks_total_{0};
  std::atomic<std::uint64_t> queue_marks_{1};  // 1: of the whole pool
  SharedCount awaiting_clients_;
  bool ramps_ = false;
};

}  // namespace evenkeel
