#include "evenkeel/filter/access_log.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <utility>

#include "evenkeel/base/host.h"
#include "evenkeel/filter/canary.h"
#include "evenkeel/filter/error_pages.h"
#include "evenkeel/filter/usage.h"
#include "evenkeel/http/cors.h"
#include "evenkeel/http/credentials.h"
#include "evenkeel/http/status.h"

namespace evenkeel {
namespace {

/// The priority as logged; empty for the one that most requests have.
std::string_view logged_priority(Priority priority) {
  return priority == Priority::standard ? std::string_view() : to_string(priority);
}

/// Splits a request's duration into its parts; what none of the others covers is overhead.
void set_times(AccessLogEntry& entry, const RequestTimings& timings, Instant ended) {
  const bool has_head = timings.head_received != Instant{};
  entry.duration = ended - timings.started;
  entry.head = (has_head ? timings.head_received : ended) - timings.started;
  entry.waited = timings.waited;
  entry.connect = timings.connected;
  entry.retry = timings.retried;
  if (timings.head_sent != Instant{}) entry.backend_time = ended - timings.head_sent;
  entry.overhead = entry.duration - entry.head - timings.excluded_from_overhead() -
                   entry.backend_time.value_or(Duration{});
  if (timings.first_byte != Instant{}) entry.first_byte = timings.first_byte - timings.started;
}

/// Why a request failed; empty: it did not.
std::string_view reason_of(const RequestOutcome& outcome, int status) {
  if (outcome.fault) return to_string(*outcome.fault);
  return status == 499 ? to_string(Fault::client_gone) : std::string_view();
}

std::string_view trace_id_of(const RequestInfo& info) {
  return info.trace == nullptr ? std::string_view() : info.trace->trace_id();
}

/// True if the response broke off, or the client left before its end.
bool is_aborted(const RequestOutcome& outcome, int status) {
  // A gRPC call that fails before its first message has a whole answer: a status.
  const bool whole_answer = outcome.grpc_status && outcome.bytes_out == 0;
  const bool ended_early = outcome.fault && outcome.status >= 200 && outcome.status < 400;
  return status == 499 || (ended_early && !whole_answer);
}

/// True if the response began that late, or never.
bool is_slow(const RequestTimings& timings, Instant ended, Duration slow) {
  const Instant first_byte = timings.first_byte;
  const Instant began = first_byte != Instant{} ? first_byte : ended;
  return began - timings.started >= slow;
}

/// True if the spans of a traced request are exported, which is known when it has ended.
bool is_exported(const RequestInfo& info, Instant ended, int status) {
  if (info.trace->is_sampled()) return true;
  return is_slow(info.timings, ended, info.trace->slow) ||
         has_failed(status, is_aborted(info.outcome, status), info.outcome.grpc_status);
}

template <class Rep, class Period>
std::int64_t microseconds(std::chrono::duration<Rep, Period> time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

template <class Integer>
std::int64_t count_or_none(const std::optional<Integer>& count) {
  return count ? static_cast<std::int64_t>(*count) : -1;
}

AccessLogInference inference_of(const InferenceInfo& info, const RequestTimings& timings) {
  const auto& request = info.request;
  const auto& response = info.response;
  AccessLogInference entry{.model = request.model,
                           .task = to_string(request.task),
                           .stream = request.stream,
                           .max_tokens = request.max_tokens,
                           .prompt_bytes = request.prompt_bytes,
                           .prompt_tokens = response.prompt_tokens,
                           .completion_tokens = response.completion_tokens,
                           .cached_tokens = response.cached_tokens,
                           .finish_reason = response.finish_reason,
                           .awaited_body = timings.awaited_body,
                           .per_output_token = response.time_per_output_token()};
  if (response.output_events > 0) entry.first_token = response.first_output - timings.started;
  if (response.output_events > 1) entry.max_gap = response.max_gap;
  return entry;
}

}  // namespace

RequestRecorder::RequestRecorder(Loop& loop, WorkerMetrics& worker_metrics, AccessLogRing* ring,
                                 AccessLogRing* usage_ring)
    : loop_(loop), worker_metrics_(worker_metrics), ring_(ring), rng_(std::random_device{}()) {
  if (usage_ring != nullptr) usage_ = std::make_unique<UsageRecorder>(*usage_ring, random_seed());
}

RequestRecorder::~RequestRecorder() = default;

void RequestRecorder::set_usage(const UsageConfig& config) {
  if (usage_ != nullptr) usage_->configure(config);
}

void RequestRecorder::set_log(const AccessLogConfig& config) {
  line_.set_layout(access_log_layout(config.format, config.fields));
  if (ring_ != nullptr) ring_->begin_destination();
  logs_all_ = config.sample >= 1;
  sample_ = config.sample;
  slow_ = config.slow.count() == 0 ? Duration::max() : Duration(config.slow);
}

/// True if the request gets a line although not all do.
bool RequestRecorder::is_chosen(const RequestInfo& info, Instant ended, int status) {
  const RequestOutcome& outcome = info.outcome;
  const bool has_failed = status >= 400 || outcome.fault || outcome.attempts.size() > 1 ||
                          outcome.grpc_status.value_or(0) != 0;
  return has_failed || is_slow(info.timings, ended, slow_) || rng_.unit() < sample_;
}

/// Records the start of a request; its destructor records the end.
class AccessLogFilter::OpenRecord {
 public:
  OpenRecord(const AccessLogFilter& filter, Request& request)
      : filter_(&filter), request_(&request) {
    filter.recorder_.record_start(request.info);
  }
  OpenRecord(OpenRecord&& other) noexcept
      : filter_(std::exchange(other.filter_, nullptr)), request_(other.request_) {}
  OpenRecord& operator=(OpenRecord&&) = delete;
  ~OpenRecord() {
    if (filter_ == nullptr) return;
    RequestRecorder& recorder = filter_->recorder_;
    if (recorder.draining() && !request_->info.outcome.fault)
      request_->info.outcome.fault = Fault::draining;
    const Instant ended = recorder.record_end({.method = request_->method,
                                               .host = request_->authority,
                                               .path = request_->path,
                                               .fields = &request_->fields},
                                              request_->info);
    if (filter_->canaries_ != nullptr) [[unlikely]]
      filter_->canaries_->count(request_->info, ended);
  }

 private:
  const AccessLogFilter* filter_;
  Request* request_;
};

/// A response body whose destructor records the end of the request.
class AccessLogFilter::RecordedBody final : public Body {
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
  OpenRecord record_;  // dropped after the body, which returns the lease and the link
  BodyPtr body_;
};

Task<Result<Response>> AccessLogFilter::handle(Request& request, Handler& next) {
  OpenRecord record(*this, request);
  // A route may remove it from what its backends get.
  const std::string_view accept =
      pages_ == nullptr ? "" : request.fields.value(FieldId::accept).value_or("");
  auto result = co_await next.handle(request);
  if (!result) {
    Error& error = result.error();
    request.info.outcome.fault = error.fault;
    request.info.outcome.detail = request.fields.keep(error.detail);
    if (error.fault == Fault::client_gone) co_return std::move(error);
    if (request.info.outcome.grpc_status) {
      request.info.outcome.grpc_status = static_cast<std::uint8_t>(grpc_status_of(error));
    }
    result = error_response(error, error_format_of(request));
    allow_origin(request, *result);
    const InferenceInfo* const inference = request.info.inference.get();
    if (inference != nullptr && !inference->refusal.empty()) {
      result->fields.add("x-evenkeel-decision", inference->refusal);
    }
  }
  if (pages_ != nullptr && request.info.outcome.fault) [[unlikely]]
    pages_->apply(request, accept, *result);
  result->fields.remove(FieldId::x_request_id);  // the backend's
  result->fields.add("x-request-id", request.info.identity.request_id, FieldId::x_request_id);
  result->body = std::make_unique<RecordedBody>(std::move(result->body), std::move(record));
  co_return result;
}

Instant RequestRecorder::record_end(const Target& target, const RequestInfo& info) {
  const auto& [identity, timings, outcome, plan, inference, trace] = info;
  const Instant ended = loop_.read_clock();
  const bool client_left = outcome.status == 0 || outcome.fault == Fault::client_gone ||
                           outcome.fault == Fault::write_timeout;
  const int status = client_left ? 499 : outcome.status;

  RequestRecord record{.pool = identity.pool_index,
                       .route = identity.route_index,
                       .status = status,
                       .grpc_status = outcome.grpc_status,
                       .duration = ended - timings.started,
                       .waited = timings.waited,
                       .request_bytes = outcome.bytes_in,
                       .response_bytes = outcome.bytes_out};
  const bool exports = trace != nullptr && is_exported(info, ended, status);
  if (exports) [[unlikely]]
    record.trace = {.trace_id = trace->trace_id(), .time = wall_time_.at(ended)};
  if (timings.first_byte != Instant{}) record.first_byte = timings.first_byte - timings.started;
  if (timings.head_sent != Instant{}) {
    record.overhead = timings.head_sent - timings.head_received - timings.excluded_from_overhead();
  }
  worker_metrics_.pool(identity.pool_index).in_flight.remove();
  worker_metrics_.count(record);
  if (identity.tenant.index != 0) {
    TenantMetrics& tenant = worker_metrics_.tenant(identity.tenant.index);
    tenant.in_flight.remove();
    tenant.requests.add();
  }
  if (outcome.fault) {
    worker_metrics_.count_error(identity.pool_index, *outcome.fault);
  } else if (client_left) {
    worker_metrics_.count_error(identity.pool_index, Fault::client_gone);
  }
  const bool is_denied = outcome.fault == Fault::unauthorized ||
                         outcome.fault == Fault::model_not_allowed ||
                         outcome.fault == Fault::tenant_not_allowed;
  if (is_denied && credentials_ != nullptr) credentials_->refused(info, target.path);
  if (inference != nullptr || outcome.fault) {
    record_recent(inference != nullptr ? worker_metrics_.recent_requests()
                                       : worker_metrics_.recent_failures(),
                  target, info, ended, status);
  }
  if (usage_ != nullptr && inference != nullptr) [[unlikely]]
    usage_->record(info, {.time = wall_time_.at(ended),
                          .duration = ended - timings.started,
                          .status = status,
                          .aborted = is_aborted(outcome, status)});
  write(target, info, ended, status, exports);
  return ended;
}

void RequestRecorder::record_recent(RecentRequests& requests, const Target& target,
                                    const RequestInfo& info, Instant ended, int status) {
  static const InferenceInfo none;
  const auto& [identity, timings, outcome, plan, inference, trace] = info;
  const InferenceRequest& request = (inference != nullptr ? *inference : none).request;
  const InferenceResponse& response = (inference != nullptr ? *inference : none).response;
  const WallClock::System::time_point started = wall_time_.at(timings.started);
  RecentRequest record{
      .started = microseconds(started.time_since_epoch()),
      .request_id = identity.request_id,
      .trace_id = trace_id_of(info),
      .model = std::string_view(request.model),
      .task = std::string_view(inference != nullptr ? to_string(request.task) : ""),
      .route = identity.route,
      .pool = identity.pool,
      .tenant = identity.tenant.name,
      .finish_reason = std::string_view(response.finish_reason),
      .status = status,
      .stream = request.stream,
      .attempt_count = static_cast<std::uint8_t>(outcome.attempts.size()),
      .max_tokens = count_or_none(request.max_tokens),
      .prompt_bytes = request.prompt_bytes,
      .estimated_prompt_tokens = request.estimated_prompt_tokens,
      .prompt_tokens = count_or_none(response.prompt_tokens),
      .completion_tokens = count_or_none(response.completion_tokens),
      .cached_tokens = count_or_none(response.cached_tokens),
      .duration = microseconds(ended - timings.started),
      .waited = microseconds(timings.waited)};
  const std::string_view reason = reason_of(outcome, status);
  record.reason = reason;
  const std::size_t count = outcome.attempts.size();
  const std::size_t kept = std::min(count, RecentRequest::max_attempts);
  for (std::size_t i = 0; i < kept; ++i) {
    const AttemptRecord& attempt = outcome.attempts[count - kept + i];
    const bool last = i + 1 == kept;
    record.attempts[i] = {.backend = attempt.backend,
                          .outcome = outcome_of(attempt, last, reason),
                          .connect = microseconds(attempt.connect)};
  }
  if (response.output_events > 0) {
    record.first_token = microseconds(response.first_output - timings.started);
  }
  if (response.output_events > 1) record.max_gap = microseconds(response.max_gap);
  if (const auto time = response.time_per_output_token()) {
    record.per_output_token = microseconds(*time);
  }
  record.has_failed = outcome.fault.has_value();
  if (record.has_failed) {
    record.failure = {.method = target.method, .host = target.host, .detail = outcome.detail};
    const bool hides = target_holds_secret(target.path);
    record.failure.path =
        hides ? std::string_view(target_with_hidden_secrets(target.path)) : target.path;
  }
  requests.record(record);
}

void RequestRecorder::refused(const Target& target, const RequestInfo& info) {
  const auto& [identity, timings, outcome, plan, inference, trace] = info;
  const Instant ended = loop_.read_clock();
  const bool client_left = outcome.status == 0 && outcome.fault == Fault::client_gone;
  const int status = client_left ? 499 : outcome.status;
  worker_metrics_.count(
      {.status = status, .grpc_status = outcome.grpc_status, .duration = ended - timings.started});
  if (outcome.fault) {
    worker_metrics_.count_error(0, *outcome.fault);
    record_recent(worker_metrics_.recent_failures(), target, info, ended, status);
  }
  const bool exports = trace != nullptr && is_exported(info, ended, status);
  write(target, info, ended, status, exports);
}

void RequestRecorder::write(const Target& target, const RequestInfo& info, Instant ended,
                            int status, bool exports) {
  const bool logs = ring_ != nullptr && (logs_all_ || is_chosen(info, ended, status));
  if (!logs && !exports) return;
  const bool hides = target_holds_secret(target.path);
  if (!hides && is_normal_authority(target.host, info.identity.secure)) [[likely]] {
    return write_line(target, info, ended, status, logs, exports);
  }
  const std::string path =
      hides ? target_with_hidden_secrets(target.path) : std::string(target.path);
  const std::string host = normal_authority(target.host, info.identity.secure);
  const Target shown{.method = target.method, .host = host, .path = path, .fields = target.fields};
  write_line(shown, info, ended, status, logs, exports);
}

void RequestRecorder::write_line(const Target& target, const RequestInfo& info, Instant ended,
                                 int status, bool logs, bool exports) {
  const auto& [identity, timings, outcome, plan, inference, trace] = info;
  AccessLogEntry entry{.time = wall_time_.at(timings.started),
                       .request_id = identity.request_id,
                       .client = identity.client,
                       .peer = identity.peer,
                       .listener = identity.listener,
                       .protocol = identity.protocol,
                       .method = target.method,
                       .host = target.host,
                       .path = target.path,
                       .route = identity.route,
                       .pool = identity.pool,
                       .backend = outcome.backend,
                       .priority = logged_priority(identity.priority),
                       .tenant = identity.tenant.name,
                       .status = status,
                       .grpc_status = outcome.grpc_status,
                       .attempts = {outcome.attempts.begin(), outcome.attempts.end()},
                       .bytes_in = outcome.bytes_in,
                       .bytes_out = outcome.bytes_out};
  entry.reason = reason_of(outcome, status);
  entry.cache = to_string(outcome.source);
  entry.aborted = is_aborted(outcome, status);
  set_times(entry, timings, ended);
  std::optional<AccessLogInference> of_model;
  if (inference != nullptr) entry.inference = &of_model.emplace(inference_of(*inference, timings));
  entry.trace_id = trace_id_of(info);
  if (exports) [[unlikely]]
    record_spans(entry, info);
  if (!logs) return;
  if (line_.shows_client_fields()) [[unlikely]]
    return append_with_client_fields(entry, target.fields, identity.tenant.key);
  AccessLogBuffer buffer;
  ring_->append(line_.format(entry, buffer));
}

void RequestRecorder::append_with_client_fields(AccessLogEntry entry, const Fields* fields,
                                                const ApiKey* key) {
  std::string referer;
  if (key != nullptr) entry.key = key->id;
  if (fields != nullptr) {
    entry.user_agent = fields->value(FieldId::user_agent).value_or("");
    entry.referer = fields->value("referer").value_or("");
  }
  if (target_holds_secret(entry.referer)) {
    referer = target_with_hidden_secrets(entry.referer);
    entry.referer = referer;
  }
  AccessLogBuffer buffer;
  ring_->append(line_.format(entry, buffer));
}

void RequestRecorder::record_spans(const AccessLogEntry& entry, const RequestInfo& info) {
  const RequestTrace& trace = *info.trace;
  const RequestSpans spans{.trace_id = trace.trace_id(),
                           .parent = trace.parent(),
                           .first = trace.span(),
                           .before_attempts = RequestTrace::spans_before_attempts,
                           .picker = trace.picker,
                           .secure = info.identity.secure,
                           .uses_gen_ai_names = trace.uses_gen_ai_names,
                           .started = info.timings.started,
                           .queued = info.timings.queued};
  // While many fail at once, those that would be lost are not formatted.
  const std::uint64_t count = 1 + std::uint64_t{spans.has_waited()} + entry.attempts.size();
  if (worker_metrics_.spans().has_room(count)) append_spans(entry, spans, count);
}

void RequestRecorder::append_spans(const AccessLogEntry& entry, const RequestSpans& spans,
                                   std::uint64_t count) {
  SpanBuffer buffer;
  worker_metrics_.spans().append(format_spans(entry, spans, buffer), count);
}

}  // namespace evenkeel
