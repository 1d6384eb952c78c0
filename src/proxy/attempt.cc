#include "proxy/attempt.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "evenkeel/http/grpc.h"
#include "evenkeel/upstream/redirect.h"
#include "proxy/attempt_outcome.h"
#include "proxy/explanation.h"
#include "proxy/forwarded_body.h"
#include "proxy/load_reports.h"
#include "proxy/response_listeners.h"

namespace evenkeel {
namespace {

/// The tunnel of an upgrade is a matter of HTTP/1.1.
LinkPool::LinkProtocol protocol_of(const Request& request) {
  return request.upgrade.empty() ? LinkPool::LinkProtocol::any : LinkPool::LinkProtocol::http1;
}

/// True for fields that only evenkeel itself may set; a client would take those of a backend for
/// ours.
bool is_own_field(const Field& field) {
  constexpr std::string_view prefix = "x-evenkeel-";
  return field.id == FieldId::other && field.name_size > prefix.size() &&
         starts_with_ignore_case(field.name(), prefix);
}

void remove_own_fields(Fields& fields) {
  if (std::any_of(fields.begin(), fields.end(), is_own_field)) [[unlikely]] {
    fields.remove_if(is_own_field);
  }
}

/// Has the client look for what a redirect names where it has sent its request: it may not be able
/// to resolve the backend's own name.
void localise_redirect(const Request& request, Response& response) {
  const bool redirects =
      response.status == 201 || (response.status >= 300 && response.status < 400);
  if (!redirects) return;
  const auto location = response.fields.value("location");
  if (!location) return;
  const std::string_view path = path_at(request.backend_authority, *location);
  if (path.empty()) return;
  std::string local;
  if (path.starts_with("//")) local = "/.";  // or it would be read as another host
  if (!path.starts_with('/')) local = "/";
  local += path;
  response.fields.remove("location");
  response.fields.add("location", response.fields.keep(local));
}

/// Names the backend that has answered by its address, as the request's carrier tells.
constexpr std::string_view served_field = "x-gateway-destination-endpoint-served";

PickReason reason_of(const Lease& lease) {
  if (lease.in_session()) return PickReason::session;
  // A scheduler chooses also where those go that have waited.
  const bool took_first = lease.waited() > Duration{} && lease.placed() == nullptr;
  return took_first ? PickReason::waited : PickReason::picked;
}

}  // namespace

const Engine& AttemptContext::engine_of(const Backend& backend) const {
  const std::uint8_t detected = backend.findings().detected_engine();
  return detected == 0 ? *options.engine : engine_numbered(detected);
}

Attempt::Attempt(const AttemptContext& context, Request& request, Lease& lease,
                 const BackendAccess& access)
    : context_(context),
      request_(request),
      backend_(*lease.backend()),
      access_(access),
      lease_(lease) {
  RequestOutcome& outcome = request.info.outcome;
  outcome.backend = backend_.spec().address;
  outcome.attempts.add({.backend = outcome.backend, .began = context.loop.now()});
  if (request.info.trace != nullptr) [[unlikely]]
    begin_tracing(*request.info.trace);
  outcome.stream_reset = false;
  request.backend_authority = access.host;
}

void Attempt::begin_tracing(RequestTrace& trace) const {
  AttemptList& attempts = request_.info.outcome.attempts;
  trace.begin_attempt(attempts.size() - 1);
  trace.picker = context_.pool.config().picker.name;
  attempts.back().why = reason_of(lease_);
}

Task<Result<LinkLease>> Attempt::connect(LinkPool::LinkChoice choice) {
  connect_began_ = context_.loop.now();
  if (request_.carrier != nullptr) [[unlikely]]
    return Result<LinkLease>(LinkLease());
  return access_.links->acquire(choice, protocol_of(request_));
}

void Attempt::end_connecting() {
  const Duration took = context_.loop.now() - std::exchange(connect_began_, never);
  request_.info.outcome.attempts.back().connect = took;
  request_.info.timings.connected += took;
}

Task<Result<Response>> Attempt::send(LinkLease link) {
  end_connecting();
  link_ = std::move(link);
  is_sent_ = true;
  if (link_.newly_connected()) backend_.connected();
  RequestTimings& timings = request_.info.timings;
  timings.head_sent = context_.loop.read_clock();
  timings.uploaded = {};
  if (timings.deadline != never) rewrite_grpc_timeout(request_, timings.head_sent);
  if (request_.info.inference != nullptr && request_.info.inference->wants_usage) ask_for_usage();
  const bool counts = context_.pool.spec().notices_silence;
  request_.awaiting_clients = counts ? &backend_.slots().awaiting_clients() : nullptr;
  if (request_.carrier != nullptr) [[unlikely]]
    return request_.carrier->carry(request_, access_.endpoint);
  return link_->send(request_);
}

/// Asks for the usage of a stream that the client did not ask for, if the backend's engine gives
/// it: others may refuse a request with `stream_options`.
void Attempt::ask_for_usage() const {
  const Engine& engine = context_.engine_of(backend_);
  InferenceInfo& info = *request_.info.inference;
  info.usage_added =
      engine.gives_stream_usage || context_.pool.config().stream_usage == StreamUsage::on;
  info.keeps_null_usage = engine.writes_null_usage;
  // A compressed stream could not be read.
  if (info.usage_added) request_.fields.remove("accept-encoding");
}

/// Attributes the request to the backend that a data plane has sent it to, where that is not the
/// one that was picked. A scheduler goes on with its own plan.
void Attempt::follow_data_plane(Response& response) {
  const auto served = response.fields.value(served_field);
  if (!served) return;
  const std::string endpoint(*served);
  response.fields.remove(served_field);
  if (endpoint == access_.endpoint || endpoint == backend_.spec().address) return;
  context_.metrics.moved_picks.add();
  const Backends& backends = context_.pool.backends();
  const auto other = std::ranges::find_if(
      backends, [&](const BackendPtr& each) { return each->spec().address == endpoint; });
  if (other == backends.end()) return;
  request_.info.outcome.backend = (*other)->spec().address;
  if (lease_.placed() != nullptr || !(*other)->try_acquire(context_.loop.now())) return;
  lease_ = Lease::adopt(*other, lease_.waited());
}

AttemptResult Attempt::complete(Response& response) {
  if (response.body == nullptr) [[unlikely]] {  // its carrier does not see what is answered
    lease_.release();
    return {};
  }
  if (request_.carrier != nullptr) [[unlikely]]
    follow_data_plane(response);
  const PoolConfig& config = context_.pool.config();
  remove_own_fields(response.fields);
  if (!request_.backend_authority.empty()) [[unlikely]]
    localise_redirect(request_, response);
  RequestInfo& info = request_.info;
  info.outcome.backend_index = access_.index;
  if (lease_.placed() != nullptr) {
    info.inference->listener = std::make_unique<SchedulerListener>(lease_.placed());
  }
  if (backend_.state().connect_failures() != 0) [[unlikely]]
    backend_.answered(info.timings.head_sent);
  AttemptResult result = classify_head(request_, response);
  result.sent = info.timings.head_sent;
  std::string_view json_error;
  if (response.status == 500) [[unlikely]]
    json_error = context_.engine_of(backend_).refusals.json_error;
  if (counts_against_backend(result.outcome) && json_error.empty()) [[unlikely]]
    lease_.backend()->record_outcome(result, context_.loop.now());
  if (config.debug_headers) {
    response.fields.add("x-evenkeel-backend", info.outcome.backend);
    response.fields.add("x-evenkeel-pool", config.name);
  }
  if (wants_explanation(request_, config.debug_headers)) [[unlikely]]
    add_explanation(context_.pool, lease_, request_, response);
  const bool finds_errors =
      context_.options.finds_stream_errors || backend_.findings().detected_engine() != 0;
  response.body =
      ForwardedBody::create(context_.loop, std::move(lease_), std::move(link_), request_, response,
                            result.outcome, json_error, *access_.metrics, finds_errors);
  if (config.metrics.orca) [[unlikely]]
    take_load_report(context_.loop, backend_, request_, response);
  return result;
}

void Attempt::fail(const Error& error, NextAttempt next) {
  if (!is_sent_) end_connecting();
  const Instant now = context_.loop.now();
  record_failure(error, now);
  AttemptRecord& attempt = request_.info.outcome.attempts.back();
  attempt.fault = error.fault;
  attempt.ended = now;
  const bool counts = error.side == Side::backend && !error.awaited_client;
  if (!counts || next == NextAttempt::same_backend) return;
  backend_.stats().count_error(error.fault);
  if (next == NextAttempt::none)
    backend_.stats().record_failure(now - request_.info.timings.head_sent, now);
}

/// Records what the failure says of the backend.
void Attempt::record_failure(const Error& error, Instant now) const {
  if (!is_sent_) {
    if (error.side == Side::backend)
      backend_.record_outcome({.outcome = AttemptOutcome::unreachable, .fault = error.fault}, now);
    return;
  }
  AttemptResult result = classify(error);
  const bool in_order =
      error.fault == Fault::backend_closed && !error.reset_code && link_->ended_in_order();
  if (in_order) {
    // No failure, but a backend that ends each of its connections must not look idle.
    if (result.outcome == AttemptOutcome::failed) backend_.stats().count_failure(now);
    return;
  }
  result.safe_method = is_safe_method(request_.method);
  result.sent = request_.info.timings.head_sent;
  backend_.record_outcome(result, now);
}

}  // namespace evenkeel
