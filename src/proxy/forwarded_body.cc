#include "proxy/forwarded_body.h"

#include <memory>
#include <utility>

#include "evenkeel/http/grpc.h"
#include "evenkeel/wire/link_body.h"
#include "proxy/attempt_outcome.h"

namespace evenkeel {
namespace {

bool was_served(const RequestOutcome& outcome) {
  return outcome.status > 0 && outcome.status < 400 && !outcome.fault;
}

/// True if the backend ended a response that had begun, or did not continue it.
bool backend_failed(Fault fault) {
  return fault == Fault::backend_closed || fault == Fault::backend_protocol ||
         fault == Fault::idle_timeout || fault == Fault::first_byte_timeout ||
         fault == Fault::stream_error;
}

constexpr int internal_server_error = 500;

/// True for a success whose body has no announced length, and is neither absent nor a tunnel.
bool is_stream(const Request& request, int status, const Body& body) {
  return status < 400 && !body.length() && status != 101 && status != 204 && status != 304 &&
         request.method != "HEAD";
}

}  // namespace

BodyPtr ForwardedBody::create(Loop& loop, Lease&& lease, LinkLease&& link, Request& request,
                              Response& response, AttemptOutcome outcome,
                              std::string_view json_error, BackendMetrics& metrics,
                              bool finds_errors) {
  const bool may_be_stream = is_stream(request, response.status, *response.body);
  const auto format = may_be_stream ? response_format_of(request, response) : std::nullopt;
  const bool has_events = response.status == 200 && (format == ResponseFormat::events ||
                                                     format == ResponseFormat::json_lines);
  auto body =
      std::make_unique<ForwardedBody>(loop, std::move(lease), std::move(link), request, response,
                                      outcome, json_error, metrics, may_be_stream, format);
  const bool measures = body->pace_.has_value();
  if (!has_events && !measures) return body;
  ForwardedBody& source = *body;
  auto stream = std::make_unique<StreamBody>(loop, std::move(body), *format, request.info);
  if (measures) stream->set_source(source);
  if (has_events) stream->end_with_error(error_format_of(request.path));
  if (has_events && finds_errors) stream->find_errors();
  return stream;
}

ForwardedBody::ForwardedBody(Loop& loop, Lease&& lease, LinkLease&& link, Request& request,
                             Response& response, AttemptOutcome outcome,
                             std::string_view json_error, BackendMetrics& metrics, bool is_stream,
                             std::optional<ResponseFormat> format)
    : loop_(loop),
      lease_(std::move(lease)),
      link_(std::move(link)),
      body_(std::move(response.body)),
      info_(request.info),
      metrics_(metrics),
      outcome_(outcome),
      recorded_(counts_against_backend(outcome)),
      json_error_(json_error),
      // Any client can claim that its request is a gRPC call; the route says which requests are.
      owes_no_grpc_(request.info.outcome.grpc_status && !request.info.identity.is_streaming),
      tunnel_(response.status == 101),
      safe_method_(is_safe_method(request.method)) {
  metrics_.count_status(response.status);
  if (is_stream) {
    info_.timings.first_byte = {};
    is_json_ = format == ResponseFormat::json;
    // What asks for a stream with GET subscribes to it: it may consist of comments.
    if (!safe_method_ && format && !is_json_) pace_.emplace();
    looks_ = !pace_;
  } else if (json_error_.empty()) {
    begin(response.status);
  }
}

ForwardedBody::~ForwardedBody() {
  if (!json_error_.empty()) [[unlikely]]
    decide({});
  const Instant now = loop_.now();
  const Duration took = now - request_end(info_.timings);
  SharedBackend& shared = lease_.backend()->shared();
  metrics_.latency.observe(took);
  const std::optional<Fault> fault = info_.outcome.fault;
  const bool in_order = !tunnel_ && fault == Fault::backend_closed && ended_in_order();
  const bool failed = fault && !in_order && is_failure(*fault);
  if (recorded_) {
    // By its head. Whether the body breaks adds nothing.
  } else if (in_order) {
    // No failure, but a backend that ends each of its connections must not look idle.
    shared.stats.count_error(*fault);
    shared.stats.count_failure(now);
  } else if (failed) {
    shared.stats.count_error(*fault);
    record({.outcome = AttemptOutcome::failed, .fault = fault}, now);
  } else if (was_served(info_.outcome)) {
    const std::optional<std::uint8_t> grpc_status = info_.outcome.grpc_status;
    if (grpc_status) {
      const AttemptResult result = classify_grpc(*grpc_status);
      if (result.outcome == AttemptOutcome::success) shared.stats.record_served(took, now);
      record(result, now);
    } else {
      shared.stats.record_served(took, now);
      // Otherwise a success changes nothing.
      if (!shared.state.serving()) record({}, now);
    }
  }
  if (pace_ && info_.inference != nullptr) learn_tokens_per_output();
  if (begun_) return;
  if (failed) {
    shared.stats.record_failure(took, now);
  } else {
    shared.stats.record_no_first_byte(took, now);
  }
}

/// Learns it from what the engine has counted.
void ForwardedBody::learn_tokens_per_output() const {
  const InferenceResponse& response = info_.inference->response;
  if (!response.completion_tokens || response.output_events == 0) return;
  lease_.backend()->stats().learn_tokens_per_output(
      static_cast<double>(*response.completion_tokens) / response.output_events);
}

/// True if the end of the connection cut the response off, not a reset of its stream.
bool ForwardedBody::ended_in_order() const {
  return !info_.outcome.stream_reset && link_->ended_in_order();
}

/// True if the backend ended a response that had begun, or did not continue it, and that was its
/// fault: how a tunnel ends is a matter between client and server, and a server need not wait for
/// its client.
bool ForwardedBody::is_failure(Fault fault) const {
  if (tunnel_) return false;
  const auto* response = dynamic_cast<const LinkBody*>(body_.get());
  if (response != nullptr && response->awaited_client()) return false;
  return backend_failed(fault) && !(owes_no_grpc_ && fault == Fault::backend_protocol);
}

void ForwardedBody::record(const AttemptResult& result, Instant now) const {
  AttemptResult recorded = result;
  recorded.safe_method = safe_method_;
  recorded.sent = info_.timings.head_sent;
  lease_.backend()->record_outcome(recorded, now);
}

AttemptOutcome ForwardedBody::outcome_of_call(std::string_view grpc_status) {
  const GrpcStatus status = parse_grpc_status(grpc_status).value_or(GrpcStatus::unknown);
  return classify_grpc(static_cast<std::uint8_t>(status)).outcome;
}

Task<Result<Chunk>> ForwardedBody::read_and_look() {
  auto chunk = body_->read();
  if (!chunk.ready()) return wait_and_look(std::move(chunk));
  auto next = chunk.take();
  look(next);
  return next;
}

Task<Result<Chunk>> ForwardedBody::wait_and_look(Task<Result<Chunk>> chunk) {
  auto next = co_await chunk;
  look(next);
  co_return next;
}

void ForwardedBody::look(const Result<Chunk>& chunk) {
  if (!chunk) return;
  if (!json_error_.empty()) {
    decide(chunk->bytes);
  } else {
    look_for_beginning(*chunk, has_content(chunk->bytes));
  }
}

void ForwardedBody::on_chunk(const Chunk& chunk, const InferenceResponse& response, Instant now) {
  const auto interval = pace_->on_chunk(response.output_events, chunk.last, now);
  if (!begun_) look_for_beginning(chunk, response.output_events > 0);
  if (!interval) return;
  const Duration per_token = lease_.backend()->stats().record_output_interval(*interval, now);
  metrics_.per_output_token.observe(per_token);
}

/// Servers send white space before JSON to keep the connection alive while they work.
bool ForwardedBody::has_content(std::string_view bytes) const {
  return is_json_ ? bytes.find_first_not_of(" \t\r\n") != bytes.npos : !bytes.empty();
}

/// A stream begins with its first output, or its first byte. One that does not begin yet still has
/// to within the timeout for that.
void ForwardedBody::look_for_beginning(const Chunk& chunk, bool has_output) {
  if (!has_output && !chunk.last) {
    if (auto* const body = dynamic_cast<LinkBody*>(body_.get())) body->await_beginning();
    return;
  }
  if (!has_output && outcome_ == AttemptOutcome::success) {
    // A stream without any output: only the status of a call says how it went.
    const auto grpc_status =
        chunk.trailers == nullptr ? std::nullopt : chunk.trailers->value("grpc-status");
    outcome_ = grpc_status ? outcome_of_call(*grpc_status) : AttemptOutcome::abandoned;
  }
  info_.timings.first_byte = loop_.now();
  begin();
}

/// The error is the client's if the beginning of the body says so, else the backend's.
void ForwardedBody::decide(std::string_view body) {
  recorded_ = body.find(std::exchange(json_error_, {})) == std::string_view::npos;
  if (recorded_) {
    record(classify(internal_server_error), loop_.now());
  } else {
    outcome_ = AttemptOutcome::client_error;
  }
  begin();
}

/// Records the response's beginning for the pickers. `status`: 0 where it does not tell the
/// outcome. REQUIRES: timings.first_byte is set.
void ForwardedBody::begin(int status) {
  begun_ = true;
  looks_ = false;
  const Instant now = info_.timings.first_byte;
  const Duration took = now - request_end(info_.timings);
  SharedBackend& shared = lease_.backend()->shared();
  if (outcome_ != AttemptOutcome::success) shared.stats.count_other_answer();
  switch (outcome_) {
    case AttemptOutcome::success:
      shared.stats.record_first_byte(took, now);
      metrics_.first_byte.observe(took);
      if (!shared.state.serving()) [[unlikely]]
        lease_.backend()->accepted(safe_method_, info_.timings.head_sent, now);
      break;
    case AttemptOutcome::overloaded:
    case AttemptOutcome::failed:
    case AttemptOutcome::unreachable: shared.stats.record_failure(took, now); break;
    case AttemptOutcome::client_error:
      if (status >= 400) shared.stats.count_client_error(status);
      [[fallthrough]];
    case AttemptOutcome::abandoned: shared.stats.record_neutral(now); break;
  }
}

}  // namespace evenkeel
