// A running load: its threads and their results so far.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/load/load.h"
#include "evenkeel/load/report.h"
#include "evenkeel/load/worker.h"

namespace evenkeel {

/// Fills in the defaults of LoadOptions. An error says which options contradict each other.
Result<LoadOptions> resolve_options(LoadOptions options);

/// A started load. Destroying it ends it. Thread: its owner's.
class LoadRun {
 public:
  /// Reads the trace, resolves the target, discovers its model, and starts. `options` come from
  /// resolve_options. Blocks. An error is a message for the user.
  static Result<std::unique_ptr<LoadRun>> start(const LoadOptions& options);

  LoadRun(const LoadRun&) = delete;
  ~LoadRun();

  /// Becomes readable when the last response is complete.
  int done_fd() const { return done_fd_; }
  unsigned in_flight() const;
  /// Results since the last call.
  LoadReport take_window();
  /// Results up to the last `take_window`.
  const LoadReport& report() const { return total_; }
  /// Starts no more requests and abandons those in flight.
  void stop();

 private:
  explicit LoadRun(int done_fd);
  void start_workers();

  LoadPlan plan_;
  std::vector<std::unique_ptr<LoadWorker>> workers_;
  std::vector<std::thread> threads_;
  std::atomic<unsigned> running_{0};
  int done_fd_;
  LoadReport total_;
};

}  // namespace evenkeel
