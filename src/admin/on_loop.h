// The one meeting point of the two kinds of loop: work that a data loop or the control loop does
// for the management plane.
#pragma once

#include <boost/asio/post.hpp>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "admin/asio.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"

namespace evenkeel {

template <class T>
struct ResultOnLoop {
  using type = T;
};
template <class T>
struct ResultOnLoop<Task<T>> {
  using type = T;
};

/// Work that another loop does. The loop's side holds no reference to this object: it may be
/// destroyed before the work is done. Thread: the io_context's.
///
/// Only one source file may use it with the same T: g++ 12 numbers the temporaries in a coroutine's
/// frame by translation unit, which the release's check of the One Definition Rule rejects.
template <class T>
class LoopCall {
 public:
  /// Posts `work` to `loop`. It returns T, or a Task<T> that the loop runs to its end.
  template <class Work>
  LoopCall(const IoContextPtr& io, Loop& loop, Work work)
      : state_(std::make_shared<State>(io->get_executor())) {
    Reply reply{io, state_};
    loop.post([&loop, work = std::move(work), reply = std::move(reply)]() mutable {
      do_work(loop, work, std::move(reply));
    });
  }

  /// Returns nothing if the loop has not answered by the deadline.
  Awaitable<std::optional<T>> result(Instant deadline) {
    const auto state = state_;
    if (!state->value) {
      state->answered.expires_at(deadline);
      ErrorCode ignored;
      co_await state->answered.async_wait(or_error(ignored));
    }
    co_return std::move(state->value);
  }

 private:
  struct State {
    explicit State(Executor executor) : answered(executor) {}
    IoTimer answered;  // cancelled when `value` is there
    std::optional<T> value;
  };

  /// Carries the value back. `state` is locked on the io_context's thread only.
  struct Reply {
    IoContextPtr io;
    std::weak_ptr<State> state;

    void send(T value) {
      asio::post(*io, [waiting = state, value = std::move(value)]() mutable {
        const auto locked = waiting.lock();
        if (locked == nullptr) return;
        locked->value = std::move(value);
        locked->answered.cancel();
      });
    }
  };

  template <class Work>
  static void do_work(Loop& loop, Work& work, Reply reply) {
    if constexpr (std::is_same_v<std::invoke_result_t<Work>, Task<T>>) {
      loop.spawn(run(work(), std::move(reply)));
    } else {
      reply.send(work());
    }
  }

  static Task<void> run(Task<T> task, Reply reply) {
    T value = co_await task;
    reply.send(std::move(value));
  }

  std::shared_ptr<State> state_;
};

/// `auto value = co_await on_loop(io, loop, work, limit);` runs `work` on `loop` and comes back to
/// the io_context with what it returned; nothing if that takes longer than `limit`, in which case
/// the work may still be done later.
template <class Work, class T = typename ResultOnLoop<std::invoke_result_t<Work>>::type>
Awaitable<std::optional<T>> on_loop(IoContextPtr io, Loop& loop, Work work, Duration limit) {
  LoopCall<T> call(io, loop, std::move(work));
  std::optional<T> value = co_await call.result(Clock::now() + limit);
  co_return value;
}

}  // namespace evenkeel
