// Waiting for a task until a deadline.
#pragma once

#include <coroutine>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"

namespace evenkeel {

/// Waits for a task or for an instant, whichever comes first:
/// `co_await UntilDoneOrDeadline(task, loop, deadline);` then `task.ready()` says which.
template <class T>
class UntilDoneOrDeadline : private Timer {
 public:
  UntilDoneOrDeadline(Task<T>& task, Loop& loop, Instant deadline)
      : Timer(&UntilDoneOrDeadline::expire), task_(task), loop_(loop), deadline_(deadline) {}
  UntilDoneOrDeadline(const UntilDoneOrDeadline&) = delete;
  ~UntilDoneOrDeadline() { detach(); }

  bool await_ready() const { return task_.ready() || deadline_ <= loop_.now(); }
  void await_suspend(std::coroutine_handle<> waiter) {
    waiter_ = waiter;
    task_.resume_when_done(waiter);
    arm(loop_, deadline_);
  }
  void await_resume() { detach(); }
  /// Ends the wait soon, as if the deadline had passed.
  void expire_soon() {
    if (waiter_) arm(loop_, loop_.now());
  }

 private:
  static void expire(Timer& self) {
    auto& me = static_cast<UntilDoneOrDeadline&>(self);
    const auto waiter = me.waiter_;
    me.detach();
    waiter.resume();
  }
  void detach() {
    if (!waiter_) return;
    waiter_ = {};
    disarm();
    task_.resume_when_done({});
  }

  Task<T>& task_;
  Loop& loop_;
  Instant deadline_;
  std::coroutine_handle<> waiter_;
};

}  // namespace evenkeel
