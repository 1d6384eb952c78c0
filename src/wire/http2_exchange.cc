// How an HTTP/2 frontend handles one request: its body, refusals, the response.
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "body_rate.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/http/status.h"
#include "http2_frontend.h"
#include "linger.h"
#include "message_rules.h"
#include "refusal.h"
#include "yield_counter.h"

namespace evenkeel {

/// A request body, read from the stream's buffer; or what the client sends in the tunnel of an
/// extended CONNECT, which has no size limit and may pause: the link ends a tunnel that is idle in
/// both directions.
class Http2ServerStream::RequestBody final : public Body {
 public:
  explicit RequestBody(Http2ServerStream& stream)
      : stream_(stream), config_(stream.owner_.config_), rate_(config_) {}

  Task<Result<Chunk>> read() override {
    if (auto chunk = stream_.take()) return counted(std::move(*chunk));
    return wait();
  }
  std::optional<std::uint64_t> length() const override { return stream_.head_.length; }
  bool rewind() override {
    if (!stream_.in().rewind()) return false;
    info().outcome.bytes_in = 0;
    return true;
  }
  bool rewindable() const override { return stream_.in().rewindable(); }

 private:
  RequestInfo& info() { return stream_.request_.info; }
  bool is_limited() {
    return !stream_.request_.is_extended_connect && !info().identity.is_streaming;
  }

  Task<Result<Chunk>> wait() {
    if (std::exchange(stream_.head_.expects_continue, false)) stream_.interim(100, Fields());
    while (true) {
      BodyWait wait(stream_.owner_.loop(), config_, rate_, info(), is_limited());
      auto wake = co_await stream_.arrival(wait.deadline());
      wait.end();
      if (auto chunk = stream_.take()) co_return counted(std::move(*chunk));
      if (wake == Wake::expired) {
        co_return Error{
            .fault = Fault::body_timeout, .side = Side::client, .detail = wait.detail()};
      }
    }
  }

  Result<Chunk> counted(Result<Chunk> chunk) {
    if (!chunk) return chunk;
    if (chunk->trailers != nullptr) {
      remove_reserved(stream_.trailers_, info().identity);
      if (stream_.trailers_.size() == 0) chunk->trailers = nullptr;
    }
    info().outcome.bytes_in += chunk->bytes.size();
    rate_.received(chunk->bytes.size());
    stream_.head_.expects_continue = false;
    if (is_limited() && info().outcome.bytes_in > config_.limits.body_bytes) {
      return Error{.fault = Fault::body_too_large,
                   .side = Side::client,
                   .detail = describe_limit(MessageLimit::body, config_)};
    }
    return chunk;
  }

  Http2ServerStream& stream_;
  const ListenerConfig& config_;
  BodyRate rate_;
};

Http2ServerStream::Http2ServerStream(Http2Frontend& owner)
    : Http2Stream(owner.session_), owner_(owner) {}

void Http2ServerStream::field(const Field& field) {
  if (!head_done_) {
    head_.field(request_, field);
  } else if (!is_forbidden_in_trailers(field.name())) {
    add_received(trailers_, field);
  }
}

void Http2ServerStream::interim(int status, const Fields& fields) {
  if (!attached() || response_begun_) return;
  auto section = std::make_unique<Http2Section>(Http2Section::Values::copied);
  section->add_status(status);
  section->add_all(fields);
  submit_interim(std::move(section));
  owner_.session_.want_flush();
}

/// Why a request is refused before it reaches a handler, if it is.
std::optional<Error> Http2Frontend::check_head(Http2ServerStream& stream) {
  const auto refused = [](Fault fault, std::string detail) {
    return Error{.fault = fault, .side = Side::client, .detail = std::move(detail)};
  };
  Request& request = stream.request_;
  const char* problem = stream.head_.finish(request);
  if (stream.over_limits()) {
    return refused(Fault::header_too_large, describe_limit(stream.exceeded_limit(), config_));
  }
  if (problem != nullptr) return refused(stream.head_.fault(), problem);
  if (request.path.size() > config_.limits.uri_bytes) {
    return refused(Fault::uri_too_long, describe_limit(MessageLimit::uri, config_));
  }
  if (stream.head_.length.value_or(0) > config_.limits.body_bytes) {
    return refused(Fault::body_too_large, describe_limit(MessageLimit::body, config_));
  }
  return std::nullopt;
}

Response Http2Frontend::refuse(Http2ServerStream& stream, const Error& error) {
  Request& request = stream.request_;
  const ErrorFormat format = error_format_of(request);
  if (format == ErrorFormat::grpc) {
    request.info.outcome.grpc_status = static_cast<std::uint8_t>(grpc_status_of(error.fault));
  }
  return refusal_response(error, format, request.fields, request.info);
}

/// Makes the response to an extended CONNECT out of the answer to the upgrade that it became. Only
/// a tunnel may have a status of success: a backend that ignores the upgrade gave another answer.
void Http2Frontend::finish_handshake(Request& request, Response& response) {
  if (response.status == 101) {
    response.fields.remove("sec-websocket-accept");
    return;
  }
  if (response.status >= 300) return;
  const Error refused{.fault = Fault::not_implemented,
                      .side = Side::backend,
                      .detail = "the backend answered without opening a WebSocket"};
  Response refusal = failure_response(refused, request);
  request.info.outcome.status = refusal.status;
  request.info.outcome.bytes_out = refusal.body->length().value_or(0);
  response = std::move(refusal);  // the end of its body is the end of the request in the log
}

/// Handles one request and its response.
Task<void> Http2Frontend::exchange(Http2ServerStream& stream) {
  Request& request = stream.request_;
  std::shared_ptr<Handler> plan;  // held until the response has ended
  Response response;
  request.info.timings.head_received = loop().now();
  const std::optional<Error> refused = check_head(stream);
  std::optional<RefusalReport> report;
  if (refused) {
    response = refuse(stream, *refused);
    report.emplace(callbacks_, *refused, request.method, request.authority, request.path,
                   request.info);
  } else {
    request.interim = &stream;
    request.response_budget = &budget_;
    if (!stream.in().ended() || stream.in().received() > 0 || !request.upgrade.empty()) {
      request.body = std::make_unique<Http2ServerStream::RequestBody>(stream);
    }
    plan = callbacks_.plan();
    auto result = co_await plan->handle(request);
    if (!result && result.error().fault == Fault::client_gone) {
      session_.reset(stream, NGHTTP2_CANCEL);
      finish(stream);
      co_return;
    }
    response =
        result ? std::move(*result) : error_response(result.error(), error_format_of(request));
    if (request.is_extended_connect) [[unlikely]]
      finish_handshake(request, response);
  }
  if (stream.attached()) {
    auto sent = co_await respond(stream, response);
    if (!sent) {
      request.info.outcome.fault = sent.error().fault;
      // A truncated body must not look complete. For a tunnel: RFC 8441, section 5.
      const bool cancels = sent.error().side == Side::client || request.is_extended_connect;
      session_.reset(stream, cancels ? NGHTTP2_CANCEL : NGHTTP2_INTERNAL_ERROR);
    }
  }
  request.info.outcome.bytes_out = stream.sent();
  response.body.reset();
  // Servers of gRPC reset such a stream at once, and its clients know that. One that waits for 100
  // sends nothing.
  const bool lingers = stream.attached() && !stream.in().ended() && !request.is_extended_connect &&
                       !stream.head_.expects_continue;
  if (lingers && !is_grpc(request)) [[unlikely]] {
    report.reset();
    request.body.reset();
    plan.reset();
    co_await discard_rest(stream);
  }
  finish(stream);
}

/// Sends a response. Errors: why it is incomplete.
Task<Result<Done>> Http2Frontend::respond(Http2ServerStream& stream, Response& response) {
  Request& request = stream.request_;
  const bool bodiless = declare_length(request.method, response);
  if (bodiless || response.body == nullptr || response.body->length() == 0u) {
    submit_head(stream, response, true);
    co_return Done{};
  }
  BodyPtr broken;  // kept, since its end is the end of the request in the log
  auto next = response.body->read();
  if (next.ready()) {
    auto first = next.take();
    if (!first) {
      if (first.error().fault == Fault::client_gone) co_return std::move(first.error());
      broken = std::move(response.body);
      response = failure_response(first.error(), request);
      if (response.body == nullptr) {
        submit_head(stream, response, true);
        co_return Done{};
      }
      next = response.body->read();
    } else {
      next = Task<Result<Chunk>>(*first);
    }
  }
  submit_head(stream, response, false);
  auto pumping = stream.pump(*response.body, std::move(next), config_.timeouts.write);
  auto sent = co_await pumping;
  request.info.outcome.bytes_out = stream.sent();
  co_return sent;
}

void Http2Frontend::submit_head(Http2ServerStream& stream, const Response& response, bool last) {
  stream.response_begun_ = true;
  stream.request_.info.outcome.status = response.status;
  // Copied: a body's wrapper may release what the views point to before the head is written.
  auto section = std::make_unique<Http2Section>(Http2Section::Values::copied);
  section->add_status(response.status == 101 ? 200 : response.status);  // RFC 8441, section 5
  section->add_all(response.fields);
  if (response.declared_length) {
    section->add_length(*response.declared_length);
  } else if (!last) {
    if (const auto length = response.body->length()) section->add_length(*length);
  }
  stream.submit_response(std::move(section), last);
  session_.want_flush();
}

/// Discards the rest of a request after its response. A reset makes clients such as curl 7.88 lose
/// a response that they have not read while they send.
Task<void> Http2Frontend::discard_rest(Http2ServerStream& stream) {
  const bool timed_out = stream.request_.info.outcome.fault == Fault::body_timeout;
  Linger linger(config_, loop().now(), timed_out);
  YieldCounter steps;
  while (stream.attached() && !stream.in().ended() && !linger.is_over(loop().now())) {
    if (const auto chunk = stream.take()) {
      if (!*chunk) break;
      linger.discarded((*chunk)->bytes.size());
      if (steps.is_due()) co_await loop().yield();
    } else {
      steps.waited();
      auto wake = co_await stream.arrival(linger.deadline(loop().now(), draining_));
      if (wake == Wake::expired) break;
    }
  }
}

/// The response is submitted, or never will be.
void Http2Frontend::finish(Http2ServerStream& stream) {
  if (!stream.attached()) {
    retire(stream);
  } else if (!stream.in().ended()) {
    session_.reset_when_sent(stream, NGHTTP2_NO_ERROR);  // RFC 9113, section 8.1
  }
}

}  // namespace evenkeel
