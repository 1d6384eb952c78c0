#include "epp/process_stream.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "evenkeel/base/decimal.h"
#include "evenkeel/http/status.h"
#include "evenkeel/inference/grpc_message.h"

namespace evenkeel {
namespace {

/// Data planes take no larger pieces: 64 KiB with what frames them.
constexpr std::size_t max_piece_bytes = 62'000;
/// Bytes in one direction that wait to be read before no more are taken.
constexpr std::size_t max_waiting_bytes = 256 * 1024;
/// What a message may have beside a body.
constexpr std::uint64_t max_head_bytes = 1024 * 1024;
constexpr std::size_t max_response_fields = 1000;
/// The most that is sent of an answer that no server has given.
constexpr std::size_t max_answer_bytes = 8 * 1024 * 1024;

constexpr const char* hint_space = "envoy.lb.subset_hint";
constexpr const char* load_balancer_space = "envoy.lb";
constexpr std::string_view dropped_reason_field = "x-llm-d-request-dropped-reason";

using BodySendMode = ext_proc::ProcessingMode;

Error data_plane_left() {
  return {.fault = Fault::client_gone, .side = Side::client, .detail = "the data plane has left"};
}

bool is_final_status(int status) { return status >= 200 && status <= 599; }

}  // namespace

bool learns_from_answers(const PoolConfig& pool) {
  constexpr std::array<std::string_view, 2> blind = {"round-robin", "weighted"};
  return inspects(pool) || pool.cache || pool.limits.max_in_flight > 0 ||
         std::ranges::find(blind, pool.picker.name) == blind.end();
}

ProcessStream::ProcessStream(const Context& context, Request& call)
    : loop_(context.loop),
      plan_(context.plan),
      config_(context.config),
      listener_(context.listener),
      call_(call),
      written_(loop_),
      room_for_request_(loop_),
      room_for_response_(loop_),
      room_for_input_(loop_),
      response_changed_(loop_),
      request_body_(loop_, room_for_input_),
      response_body_(loop_, room_for_input_) {
  reading_ = read_messages();
}

ProcessStream::~ProcessStream() {
  RequestOutcome& outcome = request_.info.outcome;
  if (has_request_ && !has_ended_ && !outcome.fault) outcome.fault = Fault::client_gone;
}

// ---- messages from the data plane

Task<void> ProcessStream::read_messages() {
  GrpcMessageReader reader(listener_.limits.body_bytes + max_head_bytes);
  bool last = call_.body == nullptr;
  while (!last && !has_ended_) {
    auto next = call_.body->read();
    auto chunk = co_await next;
    if (!chunk) break;
    last = chunk->last;
    std::string_view bytes = chunk->bytes;
    using Step = GrpcMessageReader::Step;
    for (Step step = reader.read(bytes); step != Step::more; step = reader.read(bytes)) {
      if (step == Step::too_large)
        co_return end(GrpcStatus::resource_exhausted, "the message is too large (limits.body)");
      if (step == Step::malformed) co_return end(GrpcStatus::internal, "malformed framing");
      if (reader.compressed())
        co_return end(GrpcStatus::unimplemented, "compressed messages are not supported");
      if (!take(reader.message()))
        co_return end(GrpcStatus::invalid_argument, "the message is no ProcessingRequest");
    }
    while (request_body_.waiting() + response_body_.waiting() > max_waiting_bytes)
      co_await room_for_input_.wait();
  }
  input_ended();
}

bool ProcessStream::take(std::string_view bytes) {
  ext_proc::ProcessingRequest message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
  take(message);
  return true;
}

void ProcessStream::take(ext_proc::ProcessingRequest& message) {
  using Kind = ext_proc::ProcessingRequest;
  if (has_ended_) return;
  if (message.request_case() != Kind::kRequestHeaders && !has_request_)
    return end(GrpcStatus::invalid_argument, "the stream does not begin with a request's head");
  switch (message.request_case()) {
    case Kind::kRequestHeaders: return take_request_head(message);
    case Kind::kRequestBody: return take_request_body(message.request_body());
    case Kind::kResponseHeaders: return take_response_head(message);
    case Kind::kResponseBody: return take_response_body(message.response_body());
    case Kind::kRequestTrailers:
    case Kind::kResponseTrailers: return take_trailers(message);
    case Kind::REQUEST_NOT_SET: break;
  }
}

void ProcessStream::take_request_head(ext_proc::ProcessingRequest& message) {
  if (has_request_) return end(GrpcStatus::invalid_argument, "a stream carries one request only");
  if (message.observability_mode())
    return end(GrpcStatus::invalid_argument, "in observability mode there is nothing to pick");
  has_request_ = true;
  request_head_.Swap(message.mutable_request_headers());
  if (message.has_protocol_config()) {
    const auto& modes = message.protocol_config();
    const auto of_request = modes.request_body_mode();
    const auto of_response = modes.response_body_mode();
    if (of_request == BodySendMode::BUFFERED || of_request == BodySendMode::BUFFERED_PARTIAL) {
      request_mode_ = BodyMode::buffered;
    } else if (of_request != BodySendMode::FULL_DUPLEX_STREAMED) {
      request_mode_ = BodyMode::unseen;
    }
    edits_response_ = of_response == BodySendMode::FULL_DUPLEX_STREAMED;
    sees_response_body_ = of_response != BodySendMode::NONE;
  }
  begin_request(message);
}

void ProcessStream::take_request_body(const ext_proc::HttpBody& body) {
  if (request_mode_ == BodyMode::unseen) {
    ++unanswered_bodies_;
    return answer_unseen_bodies();
  }
  const std::uint64_t size =
      request_.info.outcome.bytes_in + request_body_.waiting() + body.body().size();
  if (size > listener_.limits.body_bytes) {
    return request_body_.fail({.fault = Fault::body_too_large,
                               .side = Side::client,
                               .detail = "the body is larger than limits.body allows"});
  }
  request_body_.add(body.body());
  if (body.end_of_stream() || request_mode_ == BodyMode::buffered) request_body_.end();
}

/// Data planes may send them before the head is answered.
void ProcessStream::answer_unseen_bodies() {
  if (!head_is_answered_) return;
  ext_proc::ProcessingResponse answer;
  answer.mutable_request_body()->mutable_response();
  for (; unanswered_bodies_ > 0; --unanswered_bodies_) write(answer);
}

void ProcessStream::take_response_head(ext_proc::ProcessingRequest& message) {
  if (has_response_head_) return end(GrpcStatus::invalid_argument, "a request has one response");
  if (is_larger(message.response_headers().headers(), max_response_fields, max_head_bytes))
    return end(GrpcStatus::resource_exhausted, "the head of the response is too large");
  response_head_.Swap(message.mutable_response_headers());
  served_ = find_metadata(message.metadata_context(), load_balancer_space, served_field);
  has_response_head_ = true;
  if (response_head_.end_of_stream()) response_body_.end();
  response_changed_.raise();
}

void ProcessStream::take_response_body(const ext_proc::HttpBody& body) {
  response_body_.add(body.body());
  if (body.end_of_stream()) response_body_.end();
  if (edits_response_) return;
  ext_proc::ProcessingResponse answer;
  answer.mutable_response_body()->mutable_response();
  write(answer);
}

void ProcessStream::take_trailers(const ext_proc::ProcessingRequest& message) {
  const bool of_request = message.has_request_trailers();
  const auto& trailers =
      of_request ? message.request_trailers().trailers() : message.response_trailers().trailers();
  Inflow& body = of_request ? request_body_ : response_body_;
  if (!body.has_ended()) body.end(trailers);
  const bool is_answered_later = of_request ? request_mode_ == BodyMode::duplex : edits_response_;
  if (is_answered_later) return;
  ext_proc::ProcessingResponse answer;
  if (of_request) {
    answer.mutable_request_trailers();
  } else {
    answer.mutable_response_trailers();
  }
  write(answer);
}

/// The data plane sends nothing more. It may still wait for a pick.
void ProcessStream::input_ended() {
  input_has_ended_ = true;
  request_body_.fail(data_plane_left());
  if (sees_response_body_) {
    response_body_.fail(data_plane_left());
  } else if (!response_body_.has_ended()) {
    response_body_.end();
  }
  response_changed_.raise();
  if (!has_request_ && !has_ended_) end(GrpcStatus::ok);
}

// ---- the request

Result<Done> ProcessStream::read_head() {
  const ListenerLimits& limits = listener_.limits;
  const ext_proc::HeaderMap& head = request_head_.headers();
  if (is_larger(head, limits.header_fields, limits.header_bytes)) {
    return Error{.fault = Fault::header_too_large,
                 .side = Side::client,
                 .detail = "the head is larger than limits.header or limits.header_fields allows"};
  }
  return read_request_head(head, request_);
}

/// Makes a request of its head, and has it served.
void ProcessStream::begin_request(const ext_proc::ProcessingRequest& message) {
  RequestInfo& info = request_.info;
  const RequestIdentity& caller = call_.info.identity;
  info.timings.started = info.timings.head_received = loop_.now();
  info.identity.listener = caller.listener;
  info.identity.client = caller.client;
  info.identity.protocol = caller.protocol;
  const auto head = read_head();
  info.identity.secure = request_.scheme == "https";
  if (!head) {
    info.outcome.fault = head.error().fault;
    response_ = error_response(head.error(), ErrorFormat::plain);
    serving_ = answer_at_once();
    return;
  }
  read_gateway_fields(request_, is_trusted(listener_, caller.client));
  const auto subset = find_metadata(message.metadata_context(), hint_space, subset_field);
  if (subset) request_.fields.add(subset_field, request_.fields.keep(*subset));
  const bool has_body = !request_head_.end_of_stream() && request_mode_ != BodyMode::unseen;
  if (has_body) {
    request_.body = std::make_unique<InflowBody>(
        request_body_, content_length_of(request_head_.headers()), info.outcome.bytes_in);
  }
  request_.carrier = this;
  serving_ = serve();
}

Task<void> ProcessStream::serve() {
  // What comes in a message waits for the answer to the head.
  if (request_mode_ == BodyMode::buffered && request_.body != nullptr) {
    ext_proc::ProcessingResponse answer;
    answer.mutable_request_headers()->mutable_response();
    write(answer);
    head_is_answered_ = true;
  }
  auto answering = plan_.handle(request_);
  auto result = co_await answering;
  if (result) {
    response_ = std::move(*result);
  } else {
    response_ = error_response(result.error(), error_format_of(request_));
  }
  request_.info.outcome.status = response_.status;
  if (is_unseen_) {
    response_ = {};
    co_return end(GrpcStatus::ok);
  }
  if (response_.status == observed_status_) {
    co_await pass_answer();
  } else {
    co_await answer_at_once();
  }
}

/// Tells the data plane the backend, and returns with what that answers.
Task<Result<Response>> ProcessStream::carry(Request& request, std::string_view endpoint) {
  if (is_picked_ || endpoint.empty()) {
    co_return Error{.fault = Fault::no_backend,
                    .detail = endpoint.empty() ? "the backend has no address"
                                               : "the data plane has been told a backend already"};
  }
  is_picked_ = true;
  const auto pool = std::ranges::find(config_.pools, request.info.identity.pool, &PoolConfig::name);
  const PickerResponses wanted = listener_.endpoint_picker->responses;
  observes_ = wanted == PickerResponses::observe ||
              (wanted == PickerResponses::automatic &&
               (pool == config_.pools.end() || learns_from_answers(*pool)));
  // What was asked for in the client's place could not be removed from the answer.
  const bool edits = observes_ && edits_response_;
  if (!edits && request.info.inference != nullptr) request.info.inference->usage_added = false;
  sending_request_ = send_request(request, endpoint);
  while (!send_failure_) {
    if (observes_ && has_response_head_) co_return observed_response();
    is_unseen_ = is_sent_ && (!observes_ || input_has_ended_);
    if (is_unseen_) co_return Response{};
    co_await response_changed_.wait();
  }
  co_return Error(*send_failure_);
}

Task<void> ProcessStream::send_request(Request& request, std::string_view endpoint) {
  const bool is_late = request_mode_ == BodyMode::buffered && head_is_answered_;
  if (!is_late) write_pick_by_head(request, endpoint);
  std::optional<Error> failure;
  if (request.body != nullptr) {
    auto sending = is_late ? send_buffered(request, endpoint) : send_duplex(request);
    auto sent = co_await sending;
    if (!sent) failure = std::move(sent.error());
  }
  request.info.timings.uploaded = loop_.now();
  send_failure_ = std::move(failure);
  is_sent_ = true;
  response_changed_.raise();
}

/// Sends the body back in pieces.
Task<Result<Done>> ProcessStream::send_duplex(Request& request) {
  bool last = false;
  while (!last) {
    auto next = request.body->read();
    auto chunk = co_await next;
    if (!chunk) co_return std::move(chunk.error());
    last = chunk->last;
    write_pieces(chunk->bytes, false, last && !request_body_.has_trailers());
    while (is_full()) co_await room_for_request_.wait();
  }
  if (request_body_.has_trailers()) {
    ext_proc::ProcessingResponse answer;
    answer.mutable_request_trailers();
    write(answer);
  }
  co_return Done{};
}

/// Answers the message with the body: the backend, and the body as it is now.
Task<Result<Done>> ProcessStream::send_buffered(Request& request, std::string_view endpoint) {
  std::string body;
  bool last = false;
  while (!last) {
    auto next = request.body->read();
    auto chunk = co_await next;
    if (!chunk) co_return std::move(chunk.error());
    last = chunk->last;
    body += chunk->bytes;
  }
  ext_proc::ProcessingResponse answer;
  ext_proc::CommonResponse& common = *answer.mutable_request_body()->mutable_response();
  write_pick(request, endpoint, common, answer);
  write_length(request_head_.headers(), body.size(), *common.mutable_header_mutation());
  common.mutable_body_mutation()->set_body(std::move(body));
  write(answer);
  co_return Done{};
}

Result<Response> ProcessStream::observed_response() {
  Response response = read_response_head(response_head_.headers());
  if (!is_final_status(response.status)) {
    return Error{.fault = Fault::backend_protocol,
                 .side = Side::backend,
                 .detail = "the data plane tells of a response without a status"};
  }
  observed_status_ = response.status;
  if (served_) response.fields.add(served_field, response.fields.keep(*served_));
  auto length = content_length_of(response_head_.headers());
  if (response_head_.end_of_stream()) {
    response.declared_length = length;
    length = 0;
  }
  response.body =
      std::make_unique<InflowBody>(response_body_, length, request_.info.outcome.bytes_out);
  return response;
}

/// Passes what servers have answered, and what filters have made of it.
Task<void> ProcessStream::pass_answer() {
  ext_proc::ProcessingResponse head;
  auto& changes = *head.mutable_response_headers()->mutable_response()->mutable_header_mutation();
  write_changes(response_head_.headers(), response_.fields,
                edits_response_ ? Changes::all : Changes::of_head, changes);
  const bool has_body = response_.body != nullptr && !response_head_.end_of_stream();
  if (has_body && edits_response_)
    write_length(response_head_.headers(), response_.body->length(), changes);
  write(head);
  bool last = response_.body == nullptr;
  while (!last) {
    auto next = response_.body->read();
    auto chunk = co_await next;
    if (!chunk) {
      const Error error = std::move(chunk.error());
      request_.info.outcome.fault = error.fault;
      response_ = {};
      co_return end(grpc_status_of(error), error.detail);
    }
    last = chunk->last;
    if (!has_body || !edits_response_) continue;
    write_pieces(chunk->bytes, true, last && !response_body_.has_trailers());
    while (is_full()) co_await room_for_response_.wait();
  }
  if (has_body && edits_response_ && response_body_.has_trailers()) {
    ext_proc::ProcessingResponse answer;
    answer.mutable_response_trailers();
    write(answer);
  }
  response_ = {};
  end(GrpcStatus::ok);
}

/// Has the data plane answer its client with a response that no server has given.
Task<void> ProcessStream::answer_at_once() {
  ext_proc::ProcessingResponse answer;
  ext_proc::ImmediateResponse& immediate = *answer.mutable_immediate_response();
  immediate.mutable_status()->set_code(response_.status);
  for (const Field& field : response_.fields) {
    if (field.name() == "grpc-status") {
      const auto status = parse_grpc_status(field.value()).value_or(GrpcStatus::unknown);
      immediate.mutable_grpc_status()->set_status(static_cast<std::uint32_t>(status));
    }
    set_header(*immediate.mutable_headers(), field.name(), field.value());
    if (field.name() != "x-evenkeel-reason") continue;
    set_header(*immediate.mutable_headers(), dropped_reason_field, field.value());
    immediate.set_details("evenkeel_" + std::string(field.value()));
  }
  std::string body;
  bool last = response_.body == nullptr;
  while (!last) {
    auto next = response_.body->read();
    auto chunk = co_await next;
    if (!chunk || body.size() + chunk->bytes.size() > max_answer_bytes) {
      response_ = {};
      co_return end(GrpcStatus::internal, "the answer is incomplete, or larger than 8 MiB");
    }
    last = chunk->last;
    body += chunk->bytes;
  }
  request_.info.outcome.status = response_.status;
  request_.info.outcome.bytes_out = body.size();
  immediate.set_body(std::move(body));
  write(answer);
  response_ = {};
  end(GrpcStatus::ok);
}

// ---- messages to the data plane

Task<Result<Chunk>> ProcessStream::read() {
  while (pending_.empty() && !has_ended_) co_await written_.wait();
  sending_.clear();
  sending_.swap(pending_);
  room_for_request_.raise();
  room_for_response_.raise();
  if (!has_ended_) co_return Chunk{.bytes = sending_};
  co_return Chunk{.bytes = sending_, .last = true, .trailers = &status_};
}

void ProcessStream::write(const ext_proc::ProcessingResponse& message) {
  if (has_ended_) return;
  append_grpc_frame(pending_, message.SerializeAsString());
  written_.raise();
}

/// Names the backend, in the head and in metadata, and tells what has become of the head.
void ProcessStream::write_pick(const Request& request, std::string_view endpoint,
                               ext_proc::CommonResponse& common,
                               ext_proc::ProcessingResponse& message) const {
  ext_proc::HeaderMutation& changes = *common.mutable_header_mutation();
  set_header(changes, endpoint_field, endpoint);
  write_changes(request_head_.headers(), request.fields, Changes::all, changes);
  if (find_header(request_head_.headers(), ":path") != request.path)
    set_header(changes, ":path", request.path);
  common.set_clear_route_cache(true);
  set_metadata(*message.mutable_dynamic_metadata(), load_balancer_space, endpoint_field, endpoint);
}

void ProcessStream::write_pick_by_head(const Request& request, std::string_view endpoint) {
  ext_proc::ProcessingResponse answer;
  ext_proc::CommonResponse& common = *answer.mutable_request_headers()->mutable_response();
  write_pick(request, endpoint, common, answer);
  if (request.body != nullptr)
    write_length(request_head_.headers(), request.body->length(),
                 *common.mutable_header_mutation());
  write(answer);
  head_is_answered_ = true;
  answer_unseen_bodies();
}

void ProcessStream::write_pieces(std::string_view bytes, bool is_response, bool last) {
  if (bytes.empty() && !last) return;
  do {
    const std::string_view piece = bytes.substr(0, max_piece_bytes);
    bytes.remove_prefix(piece.size());
    ext_proc::ProcessingResponse answer;
    ext_proc::BodyResponse& body =
        is_response ? *answer.mutable_response_body() : *answer.mutable_request_body();
    auto& streamed = *body.mutable_response()->mutable_body_mutation()->mutable_streamed_response();
    streamed.set_body(std::string(piece));
    streamed.set_end_of_stream(last && bytes.empty());
    write(answer);
  } while (!bytes.empty());
}

bool ProcessStream::is_full() const { return pending_.size() > max_waiting_bytes && !has_ended_; }

void ProcessStream::end(GrpcStatus status, std::string_view message) {
  if (std::exchange(has_ended_, true)) return;
  status_.add("grpc-status", grpc_status_digits(status));
  if (!message.empty()) {
    std::string escaped;
    append_grpc_message(escaped, message);
    status_.add("grpc-message", status_.keep(escaped));
  }
  written_.raise();
}

}  // namespace evenkeel
