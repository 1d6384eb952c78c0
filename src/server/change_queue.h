// Changes to what runs, one after the other.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"

namespace evenkeel {

/// Runs changes in the order in which they were queued; each begins when the one before is done. A
/// change is a callable that returns a Task<T>.
///
/// Thread: the loop's.
class ChangeQueue {
 public:
  explicit ChangeQueue(Loop& loop) : loop_(loop), queued_(loop) {}
  ChangeQueue(const ChangeQueue&) = delete;
  ChangeQueue& operator=(const ChangeQueue&) = delete;

  /// Queues a change and returns its result when it is done. A caller that drops the task no longer
  /// waits; the change still runs.
  template <class Change>
  std::invoke_result_t<Change> run(Change change) {
    using T = decltype(change().take());
    auto outcome = std::make_shared<Outcome<T>>(loop_);
    queue("", [change = std::move(change), outcome]() mutable { return keep(change(), outcome); });
    return await(std::move(outcome));
  }
  /// Queues a change without waiting for it; does nothing when one of this name is queued and has
  /// not begun, since that one will see the same state. `name` is a literal.
  template <class Change>
  void post(std::string_view name, Change change) {
    if (is_queued(name)) return;
    queue(name, [change = std::move(change)]() mutable { return discard(change()); });
  }

  /// Runs what is queued, and what will be. Never done.
  Task<void> serve();

 private:
  struct Entry {
    std::string_view name;  // empty: not to be coalesced
    std::function<Task<void>()> change;
  };
  template <class T>
  struct Outcome {
    explicit Outcome(Loop& loop) : done(loop) {}
    std::optional<T> value;
    Signal done;
  };

  bool is_queued(std::string_view name) const;
  void queue(std::string_view name, std::function<Task<void>()> change);

  template <class T>
  static Task<void> keep(Task<T> change, std::shared_ptr<Outcome<T>> outcome) {
    T value = co_await change;
    outcome->value.emplace(std::move(value));
    outcome->done.raise();
  }
  template <class T>
  static Task<T> await(std::shared_ptr<Outcome<T>> outcome) {
    co_await outcome->done.wait();
    co_return std::move(*outcome->value);
  }
  static Task<void> discard(Task<void> change) { return change; }
  template <class T>
  static Task<void> discard(Task<T> change) {
    [[maybe_unused]] const T result = co_await change;
  }

  Loop& loop_;
  std::deque<Entry> entries_;
  Signal queued_;
};

}  // namespace evenkeel
