// A thread for the slow parts of a change, which would delay the checks, timers and signals of the
// control loop: parsing large files, reading certificates, resolving names.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"

namespace evenkeel {

/// Runs one piece of work at a time.
///
/// Thread: the loop's.
class PreparationThread {
 public:
  /// May block. Touches nothing that the loop's thread changes, owns what it uses. Thread: the
  /// preparation thread.
  using Work = std::function<void()>;

  /// `loop` outlives it. `name`: of the thread, at most 15 characters.
  PreparationThread(Loop& loop, const char* name);
  PreparationThread(const PreparationThread&) = delete;
  PreparationThread& operator=(const PreparationThread&) = delete;
  /// Waits for the end of work that has begun, for at most `max_wait`: a lookup that hangs must not
  /// delay the end of the process. Work that takes longer goes on, and its result is dropped. Drops
  /// the rest.
  ~PreparationThread();

  static constexpr Duration max_wait = std::chrono::seconds(2);

  /// Whether destroying it would wait.
  bool busy() const;

  /// Runs the work and returns when it is done. Dropping the task does not stop work that has
  /// begun.
  Task<void> run(Work work);

  /// From the next work on, the thread yields to the workers where they share a core. Before, it
  /// prepares the start, for which clients wait.
  void lower_priority();

 private:
  struct Job {
    Job(Loop& loop, Work own) : work(std::move(own)), done(loop) {}
    Work work;
    Signal done;
  };

  /// Shared with the thread, which may outlive this object.
  struct State {
    std::mutex mutex;  // of all below
    std::condition_variable changed;
    std::deque<std::shared_ptr<Job>> jobs;
    Loop* loop = nullptr;  // null: it may be gone
    bool low_priority = false;
    bool working = false;
    bool stopping = false;
    bool ended = false;
  };

  static void serve(const std::shared_ptr<State>& state);

  Loop& loop_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

}  // namespace evenkeel
