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

#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"

namespace evenkeel {

/// Runs one piece of work at a time.
///
/// Thread: the loop's.
class PreparationThread {
 public:
  /// May block. Touches nothing that the loop's thread changes. Thread: the preparation thread.
  using Work = std::function<void()>;

  /// `loop` outlives it.
  explicit PreparationThread(Loop& loop);
  PreparationThread(const PreparationThread&) = delete;
  PreparationThread& operator=(const PreparationThread&) = delete;
  /// Waits for the end of work that has begun; drops the rest.
  ~PreparationThread();

  /// Runs the work and returns when it is done. Dropping the task does not stop work that has
  /// begun.
  Task<void> run(Work work);

 private:
  struct Job {
    Job(Loop& loop, Work own) : work(std::move(own)), done(loop) {}
    Work work;
    Signal done;
  };

  void serve();

  Loop& loop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;  // guarded by mutex_
  bool stopping_ = false;                  // guarded by mutex_
  std::thread thread_;
};

}  // namespace evenkeel
