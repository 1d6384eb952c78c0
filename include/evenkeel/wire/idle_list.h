// Connections between two requests, in the order in which they became idle.
#pragma once

#include <atomic>
#include <cstdint>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"

namespace evenkeel {

class IdleList;

/// A waiter that may be in an IdleList, or in a WaiterList. Leaves it when destroyed.
class IdleWaiter : public Waiter {
 public:
  explicit IdleWaiter(Action action) : Waiter(action) {}
  ~IdleWaiter() { leave(); }
  /// Removes it from the list that it is in, if any.
  inline void leave();

 private:
  friend class IdleList;
  IdleList* list_ = nullptr;
  Instant since_{};
};

/// What other threads may know of an IdleList.
struct IdleSummary {
  /// When the connection that is idle longest became idle; `never`: none is idle.
  std::atomic<Instant> oldest_since{never};
  std::atomic<std::uint32_t> count{0};
};

/// Idle connections, the one idle longest first.
///
/// Thread: its loop's.
class IdleList {
 public:
  /// `summary` follows the list, and outlives it; null: none.
  explicit IdleList(IdleSummary* summary = nullptr) : summary_(summary) {}
  IdleList(const IdleList&) = delete;
  IdleList& operator=(const IdleList&) = delete;
  ~IdleList() {
    while (!empty()) static_cast<IdleWaiter&>(waiters_.first()).leave();
  }

  /// Appends a connection that is idle from now on.
  void add(IdleWaiter& waiter, Instant now) {
    waiter.leave();
    waiter.since_ = now;
    waiter.list_ = this;
    const bool first = waiters_.empty();
    waiters_.add(waiter);
    ++count_;
    if (summary_ == nullptr) return;
    summary_->count.store(count_, std::memory_order_relaxed);
    if (first) summary_->oldest_since.store(now, std::memory_order_relaxed);
  }
  bool empty() const { return count_ == 0; }
  std::uint32_t count() const { return count_; }
  /// When the connection that is idle longest became idle; `never`: none is.
  Instant oldest_since() const {
    return empty() ? never : static_cast<const IdleWaiter&>(waiters_.first()).since_;
  }
  /// Removes the connection that is idle longest and wakes it. REQUIRES: not empty.
  void wake_first() {
    auto& waiter = static_cast<IdleWaiter&>(waiters_.first());
    waiter.leave();
    waiter.wake();
  }
  void wake_all() {
    while (!empty()) wake_first();
  }

 private:
  friend class IdleWaiter;

  void remove(IdleWaiter& waiter) {
    const bool was_first = &waiters_.first() == &waiter;
    waiter.list_ = nullptr;
    static_cast<Waiter&>(waiter).leave();
    --count_;
    if (summary_ == nullptr) return;
    summary_->count.store(count_, std::memory_order_relaxed);
    if (!was_first) return;
    summary_->oldest_since.store(oldest_since(), std::memory_order_relaxed);
  }

  WaiterList waiters_;
  std::uint32_t count_ = 0;
  IdleSummary* const summary_;
};

inline void IdleWaiter::leave() {
  if (list_ != nullptr) {
    list_->remove(*this);
  } else {
    Waiter::leave();
  }
}

}  // namespace evenkeel
