// Counts every request when it has ended, and writes its line into the access log.
#pragma once

#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"
#include "evenkeel/stats/access_log.h"
#include "evenkeel/stats/access_log_formatter.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// What a worker counts and logs with. Thread: the worker's.
class RequestRecorder {
 public:
  /// `ring` null: no access log.
  RequestRecorder(Loop& loop, WorkerMetrics& worker_metrics, AccessLogRing* ring)
      : loop_(loop), worker_metrics_(worker_metrics), ring_(ring) {}

  /// From now on requests end because we leave, not because their clients do.
  void start_draining() { draining_ = true; }
  bool draining() const { return draining_; }
  /// A request is on its way to its pool.
  void record_start(const RequestInfo& info) {
    worker_metrics_.pool(info.identity.pool_index).in_flight.add();
  }
  /// It has ended, one way or another.
  void record_end(std::string_view method, std::string_view host, std::string_view path,
                  const RequestInfo& info);
  /// It ended before there was a pool to send it to.
  void refused(std::string_view method, std::string_view path, const RequestInfo& info);

 private:
  void write(std::string_view method, std::string_view host, std::string_view path,
             const RequestInfo& info, Instant ended, int status);

  Loop& loop_;
  WorkerMetrics& worker_metrics_;
  AccessLogRing* ring_;
  bool draining_ = false;
  WallClock wall_time_;
  AccessLogFormatter line_;
};

/// The outermost filter: also the place where an error becomes an answer. A request is counted when
/// its response body is dropped, or when it is dropped itself.
class AccessLogFilter final : public Filter {
 public:
  explicit AccessLogFilter(RequestRecorder& recorder) : recorder_(recorder) {}
  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  RequestRecorder& recorder_;
};

}  // namespace evenkeel
