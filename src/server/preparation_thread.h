// A thread for the slow parts of a change, which would delay the checks, timers and signals of the
// control loop: parsing large files, reading certificates, resolving names.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
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
  /// `loop` outlives it. `name`: of the thread, at most 15 characters.
  PreparationThread(Loop& loop, const char* name);
  PreparationThread(const PreparationThread&) = delete;
  PreparationThread& operator=(const PreparationThread&) = delete;
  /// Waits for the end of work that has begun, for at most `max_wait`: a lookup that hangs must not
  /// delay the end of the process. Work that takes longer goes on, and its result is dropped. Drops
  /// the rest.
  ~PreparationThread();

  static constexpr Duration max_wait = std::chrono::seconds(2);

  /// True if destroying the object would wait.
  bool busy() const;

  /// Runs the work, a callable, and returns its result. It may block, touches nothing that the
  /// loop's thread changes, and owns what it uses. Dropping the task does not stop work that has
  /// begun.
  template <class Work>
  Task<std::invoke_result_t<Work&>> run(Work work) {
    using T = std::invoke_result_t<Work&>;
    if constexpr (std::is_void_v<T>) {
      return run_job(std::move(work));
    } else {
      auto result = std::make_shared<std::optional<T>>();
      Task<void> job =
          run_job([work = std::move(work), result]() mutable { result->emplace(work()); });
      return result_of(std::move(job), std::move(result));
    }
  }

  /// Lets the thread yield to the workers where they share a core, from the next work on. Before,
  /// it prepares the start, for which clients wait.
  void lower_priority();

 private:
  struct Job {
    Job(Loop& loop, std::function<void()> own) : work(std::move(own)), done(loop) {}
    std::function<void()> work;  // thread: the preparation thread
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

  Task<void> run_job(std::function<void()> work);
  template <class T>
  static Task<T> result_of(Task<void> job, std::shared_ptr<std::optional<T>> result) {
    co_await job;
    co_return std::move(**result);
  }
  static void serve(const std::shared_ptr<State>& state);

  Loop& loop_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

}  // namespace evenkeel
