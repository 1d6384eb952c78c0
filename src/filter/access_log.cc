#include "evenkeel/filter/access_log.h"

#include <utility>

#include "evenkeel/http/status.h"

namespace evenkeel {
namespace {

/// Closes a request's account when it is dropped.
class OpenRecord {
 public:
  OpenRecord(RequestRecorder& recorder, Request& request)
      : recorder_(&recorder), request_(&request) {
    recorder.record_start(request.info);
  }
  OpenRecord(OpenRecord&& other) noexcept
      : recorder_(std::exchange(other.recorder_, nullptr)), request_(other.request_) {}
  OpenRecord& operator=(OpenRecord&&) = delete;
  ~OpenRecord() {
    if (recorder_ == nullptr) return;
    if (recorder_->draining() && !request_->info.outcome.fault)
      request_->info.outcome.fault = Fault::draining;
    recorder_->record_end(request_->method, request_->authority, request_->path, request_->info);
  }

 private:
  RequestRecorder* recorder_;
  Request* request_;
};

/// A response body whose end is the end of the request.
class RecordedBody final : public Body {
 public:
  RecordedBody(BodyPtr body, OpenRecord record)
      : record_(std::move(record)), body_(std::move(body)) {}

  Task<Result<Chunk>> read() override {
    if (body_ == nullptr) return Result<Chunk>(Chunk{.last = true});
    return body_->read();
  }
  std::optional<std::uint64_t> length() const override {
    return body_ == nullptr ? std::optional<std::uint64_t>(0) : body_->length();
  }

 private:
  OpenRecord record_;  // after the body, which gives back lease and link
  BodyPtr body_;
};

}  // namespace

Task<Result<Response>> AccessLogFilter::handle(Request& request, Handler& next) {
  OpenRecord record(recorder_, request);
  auto result = co_await next.handle(request);
  if (!result) {
    Error& error = result.error();
    request.info.outcome.fault = error.fault;
    if (error.fault == Fault::client_gone) co_return std::move(error);
    if (request.info.outcome.grpc_status) {
      request.info.outcome.grpc_status = static_cast<std::uint8_t>(grpc_status_of(error.fault));
    }
    result = error_response(error, error_format_of(request));
  }
  result->fields.remove(FieldId::x_request_id);  // a server's own would be the second
  result->fields.add("x-request-id", request.info.identity.request_id, FieldId::x_request_id);
  result->body = std::make_unique<RecordedBody>(std::move(result->body), std::move(record));
  co_return result;
}

void RequestRecorder::record_end(std::string_view method, std::string_view host,
                                 std::string_view path, const RequestInfo& info) {
  const Instant ended = loop_.read_clock();
  const bool gone = info.outcome.status == 0 || info.outcome.fault == Fault::client_gone ||
                    info.outcome.fault == Fault::write_timeout;
  const int status = gone ? 499 : info.outcome.status;

  RequestRecord tally{.pool = info.identity.pool_index,
                      .route = info.identity.route_index,
                      .status = status,
                      .grpc_status = info.outcome.grpc_status,
                      .duration = ended - info.timings.started,
                      .waited = info.timings.waited,
                      .request_bytes = info.outcome.bytes_in,
                      .response_bytes = info.outcome.bytes_out};
  if (info.timings.first_byte != Instant{})
    tally.first_byte = info.timings.first_byte - info.timings.started;
  if (info.timings.head_sent != Instant{})
    tally.overhead =
        info.timings.head_sent - info.timings.head_received - info.timings.excluded_from_overhead();
  worker_metrics_.pool(info.identity.pool_index).in_flight.remove();
  worker_metrics_.count(tally);
  if (info.outcome.fault) {
    worker_metrics_.count_error(info.identity.pool_index, *info.outcome.fault);
  } else if (gone) {
    worker_metrics_.count_error(info.identity.pool_index, Fault::client_gone);
  }
  write(method, host, path, info, ended, status);
}

void RequestRecorder::refused(std::string_view method, std::string_view path,
                              const RequestInfo& info) {
  const Instant ended = loop_.read_clock();
  worker_metrics_.count({.status = info.outcome.status,
                         .grpc_status = info.outcome.grpc_status,
                         .duration = ended - info.timings.started});
  if (info.outcome.fault) worker_metrics_.count_error(0, *info.outcome.fault);
  write(method, {}, path, info, ended, info.outcome.status);
}

void RequestRecorder::write(std::string_view method, std::string_view host, std::string_view path,
                            const RequestInfo& info, Instant ended, int status) {
  if (ring_ == nullptr) return;
  AccessLogEntry entry{.time = wall_time_.at(info.timings.started),
                       .request_id = info.identity.request_id,
                       .client = info.identity.client,
                       .listener = info.identity.listener,
                       .protocol = info.identity.protocol,
                       .method = method,
                       .host = host,
                       .path = path,
                       .route = info.identity.route,
                       .pool = info.identity.pool,
                       .backend = info.outcome.backend,
                       .status = status,
                       .grpc_status = info.outcome.grpc_status,
                       .attempts = static_cast<std::uint32_t>(info.outcome.attempts.size()),
                       .bytes_in = info.outcome.bytes_in,
                       .bytes_out = info.outcome.bytes_out,
                       .duration = ended - info.timings.started,
                       .waited = info.timings.waited};
  if (info.outcome.fault) {
    entry.reason = to_string(*info.outcome.fault);
  } else if (status == 499) {
    entry.reason = to_string(Fault::client_gone);
  }
  if (info.timings.first_byte != Instant{})
    entry.first_byte = info.timings.first_byte - info.timings.started;
  if (info.timings.head_sent != Instant{}) entry.backend_time = ended - info.timings.head_sent;
  entry.aborted = status == 499 ||
                  (info.outcome.fault && info.outcome.status >= 200 && info.outcome.status < 400);
  AccessLogBuffer buffer;
  ring_->append(line_.format(entry, buffer));
}

}  // namespace evenkeel
