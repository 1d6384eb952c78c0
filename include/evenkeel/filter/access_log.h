// Counts every request when it ends, and writes its line to the access log.
#pragma once

#include <memory>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"
#include "evenkeel/stats/access_log.h"
#include "evenkeel/stats/access_log_formatter.h"
#include "evenkeel/stats/span_formatter.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

class CanaryCounter;
class ErrorPages;
class UsageRecorder;

/// Receives what becomes of clients' credentials, for the audit log. Thread: the worker's.
class CredentialObserver {
 public:
  virtual ~CredentialObserver() = default;
  /// A request with a key of a tenant has begun. REQUIRES: `info.identity.tenant.key`.
  virtual void key_used(const RequestInfo& info) = 0;
  /// A request was refused for its credentials, or for the model that it asks for.
  virtual void refused(const RequestInfo& info, std::string_view path) = 0;
};

/// Counts and logs the requests of one worker. Thread: the worker's.
class RequestRecorder {
 public:
  /// What a request asked for.
  struct Target {
    std::string_view method;
    std::string_view host;
    std::string_view path;
    const Fields* fields = nullptr;  ///< its header; null: not known
  };

  /// `ring` null: no access log; `usage_ring` null: no usage records.
  RequestRecorder(Loop& loop, WorkerMetrics& worker_metrics, AccessLogRing* ring,
                  AccessLogRing* usage_ring = nullptr);
  RequestRecorder(const RequestRecorder&) = delete;
  RequestRecorder& operator=(const RequestRecorder&) = delete;
  ~RequestRecorder();

  /// Records requests that are dropped from now on with the fault `draining`, not `client_gone`.
  void start_draining() { draining_ = true; }
  bool draining() const { return draining_; }
  /// A request was accepted for its pool.
  void record_start(const RequestInfo& info) {
    worker_metrics_.pool(info.identity.pool_index).in_flight.add();
    const std::uint32_t tenant = info.identity.tenant.index;
    if (tenant != 0) [[unlikely]]
      worker_metrics_.tenant(tenant).in_flight.add();
    if (credentials_ != nullptr && info.identity.tenant.key != nullptr) [[unlikely]]
      credentials_->key_used(info);
  }
  /// A request has ended. Returns when.
  Instant record_end(const Target& target, const RequestInfo& info);
  /// A request was refused before it reached the filters.
  void refused(const Target& target, const RequestInfo& info);
  /// Which requests get a line from now on, and how it is written.
  void set_log(const AccessLogConfig& config);
  /// How usage records are written from now on.
  void set_usage(const UsageConfig& config);
  /// Tells `observer` of credentials from now on; it outlives this object.
  void observe_credentials(CredentialObserver& observer) { credentials_ = &observer; }

 private:
  void record_recent(RecentRequests& requests, const Target& target, const RequestInfo& info,
                     Instant ended, int status);
  /// The line, and the spans, have the host in its normal form, and no credential.
  void write(const Target& target, const RequestInfo& info, Instant ended, int status,
             bool exports);
  void write_line(const Target& target, const RequestInfo& info, Instant ended, int status,
                  bool logs, bool exports);
  [[gnu::noinline]] bool is_chosen(const RequestInfo& info, Instant ended, int status);
  [[gnu::noinline]] void append_with_client_fields(AccessLogEntry entry, const Fields* fields,
                                                   const ApiKey* key);
  void record_spans(const AccessLogEntry& entry, const RequestInfo& info);
  [[gnu::noinline]] void append_spans(const AccessLogEntry& entry, const RequestSpans& spans,
                                      std::uint64_t count);

  Loop& loop_;
  WorkerMetrics& worker_metrics_;
  AccessLogRing* ring_;
  std::unique_ptr<UsageRecorder> usage_;       // null: off
  CredentialObserver* credentials_ = nullptr;  // null: the audit log is off
  bool draining_ = false;
  bool logs_all_ = true;
  double sample_ = 1;  // of requests that neither failed nor were slow
  Duration slow_ = Duration::max();
  Rng rng_;
  WallClock wall_time_;
  AccessLogFormatter line_;
};

/// Turns an error into a response. Records a request when the response body is dropped, or when the
/// request is dropped before it has a response.
class AccessLogFilter final : public Filter {
 public:
  /// `canaries`: null where no route has one. `pages`: what people get in place of errors; null:
  /// nothing. Both outlive the filter.
  explicit AccessLogFilter(RequestRecorder& recorder, const CanaryCounter* canaries = nullptr,
                           const ErrorPages* pages = nullptr)
      : recorder_(recorder), canaries_(canaries), pages_(pages) {}
  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  class OpenRecord;
  class RecordedBody;

  RequestRecorder& recorder_;
  const CanaryCounter* const canaries_;
  const ErrorPages* const pages_;
};

}  // namespace evenkeel
