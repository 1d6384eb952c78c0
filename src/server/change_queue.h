// Changes to what runs, one after the other.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string_view>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"

namespace evenkeel {

/// Runs changes in the order in which they were queued; each begins when the one before is done.
///
/// Thread: the loop's.
class ChangeQueue {
 public:
  using Change = std::function<Task<void>()>;

  explicit ChangeQueue(Loop& loop) : loop_(loop), queued_(loop) {}
  ChangeQueue(const ChangeQueue&) = delete;
  ChangeQueue& operator=(const ChangeQueue&) = delete;

  /// Queues a change and waits until it is done. A caller that drops the task no longer waits; the
  /// change still runs.
  Task<void> run(Change change);
  /// Queues a change without waiting for it; does nothing when one of this name is queued and has
  /// not begun, since that one will see the same state. `name` is a literal.
  void post(std::string_view name, Change change);

  /// Runs what is queued, and what will be. Never done.
  Task<void> serve();

 private:
  struct Entry {
    Entry(Loop& loop, std::string_view name_, Change change_)
        : name(name_), change(std::move(change_)), done(loop) {}
    std::string_view name;  // empty: not to be coalesced
    Change change;
    Signal done;
  };

  Loop& loop_;
  std::deque<std::shared_ptr<Entry>> entries_;
  Signal queued_;
};

}  // namespace evenkeel
