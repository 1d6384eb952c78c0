// A load under way: its threads, and what they have seen so far.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/load/load.h"
#include "evenkeel/load/report.h"
#include "evenkeel/load/worker.h"

namespace evenkeel {

/// Fills in what LoadOptions leaves open. Errors say which options do not fit together.
Result<LoadOptions> resolve_options(LoadOptions options);

/// A load that has begun. Destroying it ends it. Thread: its owner's.
class LoadRun {
 public:
  /// Reads the trace, finds the target and its model, and begins. Options as from `completed`.
  /// Errors are for people.
  static Result<std::unique_ptr<LoadRun>> begin(const LoadOptions& options);

  LoadRun(const LoadRun&) = delete;
  ~LoadRun();

  /// Becomes readable when the last answer is in.
  int done_fd() const { return done_fd_; }
  unsigned in_flight() const;
  /// What happened since the last call.
  LoadReport take_window();
  /// What happened up to the last `take_window`.
  const LoadReport& report() const { return total_; }
  /// Starts no more requests and abandons those in flight.
  void stop();

 private:
  explicit LoadRun(int done_fd);

  LoadPlan plan_;
  std::vector<std::unique_ptr<LoadWorker>> workers_;
  std::vector<std::thread> threads_;
  std::atomic<unsigned> running_{0};
  int done_fd_;
  LoadReport total_;
};

}  // namespace evenkeel
