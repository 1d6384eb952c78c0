// A thread for what a change needs and must not keep the control loop from its checks, timers and
// signals: parsing large files, reading certificates, resolving names.
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
  /// Waits for work that has begun.
  ~PreparationThread();

  /// Returns when the work is done. Work that has begun when the task is dropped still ends.
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
