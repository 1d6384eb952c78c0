// Task<T>: a coroutine that starts at once and is awaited by at most one other.
//
// Why not asio::awaitable: a Task that finishes without waiting does not suspend its caller, one
// that is made from a value has no frame at all, and dropping a suspended Task cancels it: its
// frame and everything that waits inside it are destroyed (docs/decisions.md, 1).
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "evenkeel/base/pool_allocator.h"
#include "evenkeel/base/result.h"

namespace evenkeel {

template <class T>
class Task;

namespace detail {

struct PromiseBase : Pooled {
  std::coroutine_handle<> continuation;

  struct Final {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) noexcept {
      auto next = self.promise().continuation;
      return next ? next : std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };

  std::suspend_never initial_suspend() noexcept { return {}; }
  Final final_suspend() noexcept { return {}; }
  /// Errors are values; an exception here is a bug.
  void unhandled_exception() noexcept { std::terminate(); }
};

}  // namespace detail

/// The result of a coroutine, or a value that is already known.
///
/// REQUIRES: awaited by at most one coroutine; not dropped from inside its own execution.
/// Thread: lives and dies on one thread.
template <class T>
class [[nodiscard]] Task {
 public:
  struct promise_type : detail::PromiseBase {
    std::optional<T> value;
    Task get_return_object() { return Task(Handle::from_promise(*this)); }
    template <class U>
    void return_value(U&& result) {
      value.emplace(std::forward<U>(result));
    }
  };
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  /// A task that is done: it has no frame and does not suspend.
  Task(T value) : value_(std::move(value)) {}  // NOLINT(*-explicit-*)
  template <class U>
    requires(std::is_convertible_v<U &&, T> && !std::is_same_v<std::decay_t<U>, Task> &&
             !std::is_same_v<std::decay_t<U>, T>)
  Task(U&& value) : value_(T(std::forward<U>(value))) {}  // NOLINT(*-explicit-*)
  Task(Task&& other) noexcept
      : handle_(std::exchange(other.handle_, {})), value_(std::move(other.value_)) {
    other.value_.reset();
  }
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      drop();
      handle_ = std::exchange(other.handle_, {});
      value_ = std::move(other.value_);
      other.value_.reset();
    }
    return *this;
  }
  ~Task() { drop(); }

  /// True if the task holds a coroutine or a value.
  bool valid() const { return handle_ || value_.has_value(); }
  /// True if the value is there: awaiting does not suspend.
  bool ready() const { return value_.has_value() || (handle_ && handle_.done()); }
  /// Cancels the task: destroys its frame.
  void drop() {
    if (handle_) std::exchange(handle_, {}).destroy();
    value_.reset();
  }
  /// Sets the coroutine to resume when the task is done; an empty handle: none.
  void resume_when_done(std::coroutine_handle<> waiter) {
    if (handle_) handle_.promise().continuation = waiter;
  }

  bool await_ready() const noexcept { return ready(); }
  void await_suspend(std::coroutine_handle<> waiter) noexcept {
    handle_.promise().continuation = waiter;
  }
  T await_resume() { return take(); }

  /// The value. REQUIRES: ready().
  T take() {
    if (!handle_) {
      T result = std::move(*value_);
      value_.reset();
      return result;
    }
    T result = std::move(*handle_.promise().value);
    drop();
    return result;
  }

 private:
  explicit Task(Handle handle) : handle_(handle) {}

  Handle handle_;
  std::optional<T> value_;
};

template <>
class [[nodiscard]] Task<void> {
 public:
  struct promise_type : detail::PromiseBase {
    Task get_return_object() { return Task(Handle::from_promise(*this)); }
    void return_void() noexcept {}
  };
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      drop();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~Task() { drop(); }

  bool valid() const { return static_cast<bool>(handle_); }
  bool ready() const { return !handle_ || handle_.done(); }
  void drop() {
    if (handle_) std::exchange(handle_, {}).destroy();
  }
  void resume_when_done(std::coroutine_handle<> waiter) {
    if (handle_) handle_.promise().continuation = waiter;
  }

  bool await_ready() const noexcept { return ready(); }
  void await_suspend(std::coroutine_handle<> waiter) noexcept {
    handle_.promise().continuation = waiter;
  }
  void await_resume() { drop(); }

 private:
  explicit Task(Handle handle) : handle_(handle) {}

  Handle handle_;
};

}  // namespace evenkeel
