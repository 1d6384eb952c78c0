// When an open loop sends its next request.
#pragma once

#include <coroutine>
#include <utility>

#include "evenkeel/base/high_resolution_timer.h"
#include "evenkeel/base/loop.h"

namespace evenkeel {

/// Waits to the microsecond: the loop's own timers are a coarse wheel.
class Pacer {
 public:
  explicit Pacer(Loop& loop) : timer_(*this, loop) {}

  /// `co_await pacer.until(when);` One waiter at a time.
  auto until(Instant when) {
    struct Wait {
      Pacer& pacer;
      Instant when;
      bool await_ready() const { return false; }
      void await_suspend(std::coroutine_handle<> waiter) {
        pacer.waiter_ = waiter;
        pacer.timer_.arm(when);
      }
      void await_resume() const {}
    };
    return Wait{*this, when};
  }

 private:
  void on_timer() {
    if (waiter_) std::exchange(waiter_, {}).resume();
  }
  std::coroutine_handle<> waiter_;
  MethodHighResolutionTimer<&Pacer::on_timer> timer_;
};

}  // namespace evenkeel
