#include "http2_client_stream.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <string>
#include <utility>

#include "evenkeel/http/credentials.h"
#include "evenkeel/net/websocket_key.h"
#include "http2_message.h"
#include "message_rules.h"

namespace evenkeel {

/// The body of a response. Owns its stream.
class Http2ClientStream::Body final : public ResponseBody<Body> {
 public:
  Body(std::unique_ptr<Http2ClientStream> stream, std::optional<std::uint64_t> length)
      : ResponseBody(stream->session().loop(), stream->exchange_, !length && !stream->tunnel_),
        stream_(std::move(stream)),
        length_(length) {}

  std::optional<std::uint64_t> length() const override { return length_; }

  // ---- as its base reads it ----
  std::optional<Result<Chunk>> take() {
    auto chunk = stream_->take();
    if (!chunk) return chunk;
    awaits_beginning_ = false;
    if (!*chunk) {
      const bool by_backend =
          chunk->error().reset_code.has_value() || stream_->session().ending().by_peer;
      if (by_backend) note_break();
    }
    return chunk;
  }
  Signal::Wait arrival(Instant deadline) { return stream_->arrival(deadline); }
  std::optional<Error> upload_failure() { return stream_->take_upload_failure(); }
  Instant last_upload_progress() const { return stream_->last_progress(); }

 private:
  std::unique_ptr<Http2ClientStream> stream_;
  std::optional<std::uint64_t> length_;
};

Http2ClientStream::Http2ClientStream(const LinkParts& link, Request& request, bool tunnel)
    : Http2Stream(link.session, request.response_budget),
      options_(link.options),
      resets_(link.resets),
      request_(request),
      tunnel_(tunnel),
      exchange_(session().loop(), link.options, link.silence) {
  insert_before(link.streams);
  using RequestMethod = Http2MessageCheck::RequestMethod;
  if (request.method == "HEAD") expect_answer_to(RequestMethod::head);
  if (tunnel) expect_answer_to(RequestMethod::connect);
}

Http2ClientStream::~Http2ClientStream() {
  upload_.drop();
  if (tunnel_ && attached() && in().ended() && all_sent() && !end_sent()) [[unlikely]]
    send_end();  // of a tunnel that the backend has ended; a reset would look like an abort
  if (in().ended() && end_sent()) {
    session().detach(*this);
  } else {
    session().reset(*this, NGHTTP2_CANCEL);
    resets_.count(session().loop().now());
  }
}

// ---- the request ------------------------------------------------------------------------------

void Http2ClientStream::submit(Task<Result<Chunk>> first) {
  submit_head();
  exchange_.begin(request_.info.timings);
  session().want_flush();
  if (evenkeel::Body* const body = body_to_send(request_)) {
    upload_ = upload(*body, std::move(first));
  } else {
    request_.info.timings.uploaded = exchange_.began();
  }
}

void Http2ClientStream::submit_head() {
  auto section = std::make_unique<Http2Section>(Http2Section::Values::borrowed);
  section->add(":method", tunnel_ ? "CONNECT" : request_.method);
  if (tunnel_) [[unlikely]]
    section->add(":protocol", request_.upgrade);
  section->add(":scheme", session().socket().tls() != nullptr ? "https" : "http");
  const std::string_view authority = authority_for_backend(request_);
  if (!authority.empty()) section->add(":authority", authority);
  section->add(":path", request_.path, FieldId::other,
               request_.path_never_indexed || target_holds_secret(request_.path));
  section->add_all(request_.fields);
  if (request_.wants_trailers) section->add("te", "trailers", FieldId::te);
  if (tunnel_) [[unlikely]]
    section->remove("sec-websocket-key");
  const evenkeel::Body* const body = body_to_send(request_);
  if (body == nullptr) {
    if (declares_empty_body(request_.method)) section->add_length(0);
  } else if (const auto length = body->length()) {
    section->add_length(*length);
  }
  submit_request(std::move(section), body == nullptr && !tunnel_);
}

/// Ends the request without any more bytes, at once: the stream may be dropped afterwards.
void Http2ClientStream::send_end() {
  set_chunk({.last = true});
  session().flush();
}

Task<Result<Done>> Http2ClientStream::upload(evenkeel::Body& body, Task<Result<Chunk>> first) {
  exchange_.upload.running = true;
  auto pumping = pump(body, std::move(first), options_.idle_timeout, &exchange_.upload.waits,
                      request_.awaiting_clients);
  auto sent = co_await pumping;
  exchange_.upload.running = false;
  if (sent) request_.info.timings.uploaded = session().loop().now();
  wake_reader();
  co_return sent;
}

std::optional<Error> Http2ClientStream::take_upload_failure() {
  if (!upload_.valid() || !upload_.ready()) return std::nullopt;
  auto uploaded = upload_.take();
  // If the backend ended the stream, its failure says why.
  if (uploaded || !attached()) return std::nullopt;
  // A stream takes its peer for the client; here the slow reader is the backend.
  if (uploaded.error().fault == Fault::write_timeout) return stalled_upload();
  return std::move(uploaded.error());
}

// ---- the response -----------------------------------------------------------------------------

void Http2ClientStream::field(const Field& field) {
  if (answered_) {
    if (!is_forbidden_in_trailers(field.name())) add_received(trailers_, field);
    return;
  }
  const std::string_view name = field.name();
  const std::string_view value = field.value();
  if (is_name(name, ":status")) {  // three digits (Http2MessageCheck)
    status_ = (value[0] - '0') * 100 + (value[1] - '0') * 10 + (value[2] - '0');
    return;
  }
  switch (field.id) {
    case FieldId::te:
    case FieldId::trailer: return;
    case FieldId::content_length: length_ = parse_length(value); return;
    default: add_received(fields_, field);
  }
}

void Http2ClientStream::headers_complete(bool last) {
  if (over_limits()) return refuse("the response head is too large", NGHTTP2_ENHANCE_YOUR_CALM);
  if (!answered_ && status_ < 200) return handle_interim(last);
  if (answered_ && tunnel_ && status_ < 300) {  // only DATA belongs in it (RFC 9113, section 8.5)
    return refuse("trailers in a tunnel", NGHTTP2_PROTOCOL_ERROR);
  }
  if (!answered_) {
    // RFC 9110, section 15; as with HTTP/1.1
    if (status_ > 599) return refuse("invalid status", NGHTTP2_PROTOCOL_ERROR);
    answered_ = true;
    request_.info.timings.first_byte = session().loop().now();
    wake_reader();
  }
  if (last) mark_remote_end();
}

void Http2ClientStream::handle_interim(bool last) {
  const bool valid = !last && status_ >= 100 && status_ != 101 && exchange_.may_be_interim();
  if (!valid) return refuse("invalid or too many interim responses", NGHTTP2_PROTOCOL_ERROR);
  InterimHandler* interim = request_.interim;
  if (status_ != 100 && interim != nullptr) interim->interim(status_, fields_);
  fields_.clear();
  length_.reset();
  status_ = 0;
}

/// Ends the stream because of what the backend has sent.
void Http2ClientStream::refuse(const char* detail, std::uint32_t code) {
  fail_with(backend_error(Fault::backend_protocol, detail));
  session().reset(*this, code);
}

Response Http2ClientStream::take_response(std::unique_ptr<Http2ClientStream> stream) {
  Response response{.status = stream->status_, .fields = std::move(stream->fields_)};
  if (stream->tunnel_) [[unlikely]]
    stream->finish_handshake(response);
  const auto length = stream->body_length(response);
  response.body = std::make_unique<Body>(std::move(stream), length);
  return response;
}

/// Makes the answer to an extended CONNECT the answer to the upgrade that the request is for, and
/// starts the tunnel.
void Http2ClientStream::finish_handshake(Response& response) {
  if (response.status >= 300) {
    if (attached()) send_end();  // dropping it with its answer would be a reset
    return;
  }
  response.status = 101;
  Fields& fields = response.fields;
  fields.remove("sec-websocket-accept");
  fields.add("upgrade", request_.upgrade, FieldId::upgrade);
  if (const auto key = request_.fields.value("sec-websocket-key")) {
    fields.add("sec-websocket-accept", fields.keep(websocket_accept(*key)));
  }
  upload_ = upload(*request_.body, request_.body->read());
}

/// The length of the response's body, if it is known; sets the declared one.
std::optional<std::uint64_t> Http2ClientStream::body_length(Response& response) const {
  if (response.status == 101) return std::nullopt;
  const bool bodiless = is_bodiless(request_.method, response.status);
  if (bodiless && response.status != 204) {
    response.declared_length = length_;
    return std::nullopt;  // zero would be declared to the client (RFC 9110, section 8.6)
  }
  const bool ended = in().ended() && in().received() == 0 && !has_trailers();
  if (bodiless || ended) return 0;
  // nghttp2 does not compare the content-length of an answer to CONNECT with its body.
  return tunnel_ ? std::nullopt : length_;
}

// ---- the end ----------------------------------------------------------------------------------

/// True if the deadline of a gRPC call is so near that it may have passed for the backend.
bool Http2ClientStream::near_deadline() const {
  const RequestTimings& timings = request_.info.timings;
  if (timings.deadline == never) return false;
  const Duration tolerance =
      std::clamp<Duration>((timings.deadline - timings.started) / 10, std::chrono::milliseconds(5),
                           std::chrono::milliseconds(100));
  return session().loop().now() >= timings.deadline - tolerance;
}

void Http2ClientStream::closed(std::uint32_t code, bool by_peer) {
  if (in().ended()) return;
  if (over_limits()) {
    return fail_with(backend_error(Fault::backend_protocol, "the response head is too large"));
  }
  if (!by_peer && code != NGHTTP2_REFUSED_STREAM) {
    return fail_with(
        backend_error(Fault::backend_protocol,
                      std::string("invalid HTTP/2 response: ") + nghttp2_http2_strerror(code)));
  }
  if (code == NGHTTP2_CANCEL && near_deadline()) {
    // As gRPC servers end a call whose deadline has passed; ours passes only now.
    return fail_with({.fault = Fault::deadline_exceeded,
                      .side = Side::proxy,
                      .detail = "the deadline of the call has passed"});
  }
  Error error = backend_error(Fault::backend_closed, std::string("the backend reset the stream: ") +
                                                         nghttp2_http2_strerror(code));
  // RFC 9113, 8.7: the backend has not processed such a request. nghttp2 uses the same code for
  // streams that a GOAWAY excludes.
  error.not_processed = code == NGHTTP2_REFUSED_STREAM && !answered_;
  error.awaited_client = !error.not_processed && !answered_ && exchange_.has_awaited_client();
  if (by_peer) {
    error.reset_code = code;
    request_.info.outcome.stream_reset = true;
  }
  fail_with(std::move(error));
}

Error Http2ClientStream::connection_lost(bool link_was_used, bool pings_failed) const {
  Error error = backend_error(Fault::backend_closed, session().ending().reason);
  error.awaited_client = session().ending().by_peer && !answered_ && exchange_.has_awaited_client();
  // As with HTTP/1: nothing arrived after the request, so it was probably closing an idle link.
  const bool nothing_received =
      !answered_ && in().received() == 0 && session().peer().last_read < exchange_.began();
  const bool closes_idle = link_was_used && exchange_.may_cross_idle_close();
  error.idle_close_race =
      nothing_received && (closes_idle || (pings_failed && is_safe_method(request_.method)));
  return error;
}

}  // namespace evenkeel
