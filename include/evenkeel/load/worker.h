// One thread of a load: its connections, its requests, its share of the report.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/load/arrivals.h"
#include "evenkeel/load/report.h"
#include "evenkeel/load/request_generator.h"
#include "evenkeel/load/target.h"
#include "evenkeel/stats/worker_metrics.h"
#include "evenkeel/upstream/link_pool.h"
#include "evenkeel/wire/link.h"

namespace evenkeel {

struct RequestResult;

/// What the workers of a load share. Only the counter changes while they run.
struct LoadPlan {
  LoadOptions options;
  LoadTarget target;
  Trace trace;  ///< empty: none
  std::unique_ptr<RequestGenerator> generator;
  Instant start{};
  std::atomic<std::uint64_t> next_index{0};  ///< of the next request of a closed loop

  bool open_loop() const { return options.rate > 0 || !trace.rows.empty(); }
  /// Arrivals of the whole load, the same for every caller.
  std::unique_ptr<Arrivals> arrivals() const;
};

/// Sends every n-th request of an open loop, or runs every n-th client of a closed one.
class LoadWorker {
 public:
  /// `plan` outlives the worker.
  LoadWorker(LoadPlan& plan, unsigned number);
  LoadWorker(const LoadWorker&) = delete;

  /// Returns when every request has its response, or the drain time is over. Thread: one of its
  /// own.
  void run();
  /// Makes `run` abandon what is in flight and return. Thread: any.
  void stop();
  /// Results since the last call. Thread: any.
  LoadReport take_window();
  unsigned in_flight() const { return in_flight_.load(std::memory_order_relaxed); }

 private:
  class InFlight;

  Task<void> run_open_loop();
  Task<void> run_closed_loop_client();
  Task<bool> exchange(LoadRequest load_request, Instant due);  // whether it succeeded
  Task<void> exchange_detached(LoadRequest load_request, Instant due);
  Task<RequestResult> send_once(Link& link, const LoadRequest& load_request, Instant due);
  Task<void> read_stream(Body& body, Instant due, RequestResult& result);
  Task<void> read_complete(Body& body, RequestResult& result);
  Task<void> read_error_body(Body* body, RequestResult& result);
  bool past_limit(std::uint64_t index, Duration due) const;
  void check_drain();
  Instant record_start(Instant due);
  void record_link(bool newly_connected);
  void record_content(unsigned events, Instant due, RequestResult& result);
  void record_result(const LoadRequest& load_request, Instant due, const RequestResult& result);

  LoadPlan& plan_;
  const unsigned number_;
  unsigned active_issuers_ = 0;
  bool stopping_ = false;
  bool drain_over_ = false;
  std::atomic<unsigned> in_flight_{0};
  std::mutex window_mutex_;
  LoadReport window_;
  Loop loop_;  // `run` drops its tasks, which use the members
  BackendMetrics link_metrics_;
  LinkPool links_;
  /// Fires when no request has started for the drain time.
  MethodTimer<&LoadWorker::check_drain> drain_{*this};
};

}  // namespace evenkeel
