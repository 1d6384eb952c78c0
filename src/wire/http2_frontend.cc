// The client's side of HTTP/2.
#include "http2_frontend.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "evenkeel/http/status.h"
#include "http2_connection.h"
#include "http2_message.h"
#include "message_rules.h"

namespace evenkeel {
namespace {

constexpr Duration settings_timeout = std::chrono::seconds(10);
constexpr Duration goaway_timeout = std::chrono::seconds(1);  // for the answer to our ping
constexpr int max_unsent_bytes = 128 * 1024;                  // in the kernel, for a slow reader

class Http2Frontend;

/// One request and its response.
class ServerStream final : public Http2Stream, public InterimHandler, public Node {
 public:
  explicit ServerStream(Http2Frontend& owner);
  ~ServerStream() override { task_.drop(); }

  void field(std::string_view name, std::string_view value) override;
  void interim(int status, const Fields& fields) override;

 private:
  friend class Http2Frontend;
  friend class RequestBody;

  Http2Frontend& owner_;
  Http2RequestHead head_;
  Request request_;
  bool head_done_ = false;
  bool begun_ = false;
  bool response_begun_ = false;
  bool retired_ = false;
  Task<void> task_;
};

class Http2Frontend final : public Http2Connection {
 public:
  Http2Frontend(std::unique_ptr<Socket> socket, const ClientAddress& client,
                const FrontendOptions& options, FrontendCallbacks& callbacks);
  ~Http2Frontend() override;

  static Task<void> serve(std::unique_ptr<Http2Frontend> self, ReadBuffer received);

 private:
  friend class ServerStream;
  friend class RequestBody;

  // ---- Http2Connection ----
  Http2Stream* begin_message(std::int32_t id) override;
  void headers_done(Http2Stream& stream, bool last) override;
  void headers_too_large(Http2Stream& stream) override;
  void stream_closed(Http2Stream& stream, std::uint32_t code, bool by_peer) override;
  void goaway_received(std::int32_t, std::uint32_t) override {}
  void settings_received() override { settings_received_ = true; }
  void ping_answered() override;
  void after_reading() override;
  Instant deadline() override;
  bool continue_after_wait(bool expired) override;
  void on_violation(const Http2Guard::Violation& violation) override;

  Task<void> exchange(ServerStream& stream);
  Task<Result<Done>> respond(ServerStream& stream, Response& response);
  void submit_head(ServerStream& stream, const Response& response, bool last);
  std::optional<Response> refusal_of(ServerStream& stream);
  void finish(ServerStream& stream);
  void retire(ServerStream& stream);
  void destroy_retired();
  void become_idle();
  void drop_streams();
  void begin_drain();
  void send_final_goaway();
  RequestInfo make_request_info() const;

  /// Ends the connection if it is idle.
  void close_idle() {
    close_if_idle_ = true;
    socket().watch().interrupt();
  }

  const FrontendOptions& options_;
  FrontendCallbacks& callbacks_;
  const ClientAddress client_;
  const TlsConnectionInfo* const tls_;
  bool settings_received_ = false;  // its first SETTINGS have come
  bool close_if_idle_ = false;
  bool draining_ = false;
  bool final_goaway_sent_ = false;
  std::uint32_t active_ = 0;
  Instant opened_;
  Instant draining_since_{};
  Instant headers_started_at_{};
  Http2Stream* section_ = nullptr;  // whose header section is being read
  Node streams_;
  Node retired_;                      // to be destroyed when none of them runs
  std::vector<ServerStream*> begun_;  // whose heads came with what is being read
  MethodTimer<&Http2Frontend::close_idle> idle_timer_{*this};
  MethodWaiter<&Http2Frontend::close_idle> idle_{*this};
  MethodWaiter<&Http2Frontend::begin_drain> drain_{*this};
  MethodWaiter<&Http2Frontend::destroy_retired> retired_waiter_{*this};
};

/// A request body, from the stream's buffer.
class RequestBody final : public Body {
 public:
  explicit RequestBody(ServerStream& stream) : stream_(stream) {}

  Task<Result<Chunk>> read() override {
    if (auto chunk = stream_.take()) return counted(std::move(*chunk));
    return wait();
  }
  std::optional<std::uint64_t> length() const override { return stream_.head_.length; }
  bool rewind() override {
    if (!stream_.rewind()) return false;
    stream_.request_.info.outcome.bytes_in = 0;
    return true;
  }

 private:
  Task<Result<Chunk>> wait() {
    Http2Frontend& frontend = stream_.owner_;
    if (std::exchange(stream_.head_.expects_continue, false)) stream_.interim(100, Fields());
    while (true) {
      const bool patient = stream_.request_.info.identity.is_streaming;
      auto wake = co_await stream_.arrival(
          patient ? never : frontend.loop().now() + frontend.options_.body_timeout);
      if (auto chunk = stream_.take()) co_return counted(std::move(*chunk));
      if (wake == Wake::expired) {
        co_return Error{.fault = Fault::body_timeout,
                        .side = Side::client,
                        .detail = "the request body stalls"};
      }
    }
  }

  Result<Chunk> counted(Result<Chunk> chunk) {
    if (!chunk) return chunk;
    RequestInfo& info = stream_.request_.info;
    info.outcome.bytes_in += chunk->bytes.size();
    stream_.head_.expects_continue = false;
    if (!info.identity.is_streaming && info.outcome.bytes_in > stream_.owner_.options_.body_bytes) {
      return Error{.fault = Fault::body_too_large,
                   .side = Side::client,
                   .detail = "the request body is too large"};
    }
    return chunk;
  }

  ServerStream& stream_;
};

// ---- streams ----------------------------------------------------------------------------------

ServerStream::ServerStream(Http2Frontend& owner) : Http2Stream(owner), owner_(owner) {}

void ServerStream::field(std::string_view name, std::string_view value) {
  if (!head_done_) {
    head_.field(request_, name, value);
  } else if (!is_forbidden_in_trailers(name)) {
    trailers_.add_copy(name, value);
  }
}

void ServerStream::interim(int status, const Fields& fields) {
  if (!attached() || response_begun_) return;
  Http2HeaderBlock& section = Http2HeaderBlock::scratch(Http2HeaderBlock::Values::copied);
  section.add_status(status);
  section.add_all(fields, false);
  nghttp2_submit_headers(owner_.session(), NGHTTP2_FLAG_NONE, id(), nullptr, section.data(),
                         section.size(), nullptr);
  owner_.want_flush();
}

// ---- the connection ---------------------------------------------------------------------------

Http2Settings settings_of(const FrontendOptions& options) {
  return {.side = Http2Guard::Side::server,
          .streams = options.streams,
          .header_bytes = options.header_bytes,
          .header_fields = options.header_fields,
          .write_timeout = options.write_timeout};
}

Http2Frontend::Http2Frontend(std::unique_ptr<Socket> socket, const ClientAddress& client,
                             const FrontendOptions& options, FrontendCallbacks& callbacks)
    : Http2Connection(std::move(socket), settings_of(options)),
      options_(options),
      callbacks_(callbacks),
      client_(client),
      tls_(this->socket().tls()),
      opened_(loop().now()) {
  this->socket().limit_unsent(max_unsent_bytes);
}

Http2Frontend::~Http2Frontend() {
  if (!ended()) {  // we leave: dropped with the loop
    drop_streams();
    fail(NGHTTP2_NO_ERROR, "leaving");
  }
  callbacks_.closed(options_);
}

/// Ends what is under way; the client gets no more of it.
void Http2Frontend::drop_streams() {
  for (Node* list : {&streams_, &retired_}) {
    while (list->linked()) {
      auto& stream = static_cast<ServerStream&>(*list->next);
      stream.request_.info.outcome.bytes_out = stream.sent();
      if (!stream.end_sent() && ended()) stream.request_.info.outcome.fault = Fault::client_gone;
      delete &stream;
    }
  }
}

Task<void> Http2Frontend::serve(std::unique_ptr<Http2Frontend> self, ReadBuffer received) {
  Http2Frontend& c = *self;
  c.open();
  c.become_idle();
  c.callbacks_.watch_drain(c.drain_);
  if (c.callbacks_.draining()) c.begin_drain();
  co_await c.run(std::move(received));
  c.idle_.leave();
  c.idle_timer_.disarm();
  c.drain_.leave();
  c.drop_streams();
  co_await c.linger();
}

/// No request is under way.
void Http2Frontend::become_idle() {
  callbacks_.idle_connections().add(idle_);
  idle_timer_.arm(loop(), loop().now() + options_.idle_timeout);
}

RequestInfo Http2Frontend::make_request_info() const {
  const bool certified = tls_ != nullptr && tls_->verified;
  return RequestInfo{
      .identity = {.listener = options_.listener,
                   .client = client_.text(),
                   .client_port = client_.port(),
                   .protocol = "HTTP/2",
                   .trusted = client_.trusted(),
                   .secure = tls_ != nullptr,
                   .certificate_subject =
                       certified ? tls_->certificate_subject : std::string_view(),
                   .certificate_hash = certified ? tls_->certificate_hash : std::string_view()},
      .timings = {.started = headers_started_at_}};
}

Http2Stream* Http2Frontend::begin_message(std::int32_t) {
  auto* stream = new ServerStream(*this);
  stream->insert_before(streams_);
  if (active_++ == 0) {
    idle_.leave();
    idle_timer_.disarm();
  }
  headers_started_at_ = loop().now();
  section_ = stream;
  return stream;
}

void Http2Frontend::headers_done(Http2Stream& ended, bool last) {
  auto& stream = static_cast<ServerStream&>(ended);
  section_ = nullptr;
  if (last) stream.mark_remote_end();
  if (stream.head_done_) {  // these were trailers
    if (stream.over_limits() && stream.begun_) {
      reset(stream, NGHTTP2_ENHANCE_YOUR_CALM);
      stream.request_.info.outcome.fault = Fault::header_too_large;
      retire(stream);
    }
    return;
  }
  stream.head_done_ = true;
  stream.request_.info = make_request_info();
  begun_.push_back(&stream);
}

void Http2Frontend::headers_too_large(Http2Stream& refused) {
  auto& stream = static_cast<ServerStream&>(refused);
  section_ = nullptr;
  stream.request_.info = make_request_info();
  stream.request_.info.outcome.fault = Fault::header_too_large;
  callbacks_.refused({Fault::header_too_large, 0, "the header section is far too large",
                      stream.request_.method, stream.request_.path, stream.request_.info});
  retire(stream);
}

/// What was read of requests has been handled: those that are complete enough begin.
void Http2Frontend::after_reading() {
  for (std::size_t i = 0; i < begun_.size(); ++i) {
    ServerStream& stream = *begun_[i];
    if (stream.retired_ || stream.begun_) continue;
    stream.begun_ = true;
    stream.task_ = exchange(stream);
  }
  begun_.clear();
}

/// Answers what is not acceptable without asking a handler.
std::optional<Response> Http2Frontend::refusal_of(ServerStream& stream) {
  Request& request = stream.request_;
  const char* problem = stream.head_.finish(request);
  Fault fault = stream.head_.fault();
  if (stream.over_limits()) {
    problem = "the header section is too large";
    fault = Fault::header_too_large;
  } else if (problem == nullptr && request.path.size() > options_.uri_bytes) {
    problem = "the request target is too long";
    fault = Fault::uri_too_long;
  } else if (problem == nullptr && stream.head_.length.value_or(0) > options_.body_bytes) {
    problem = "the request body is too large";
    fault = Fault::body_too_large;
  }
  if (problem == nullptr) return std::nullopt;
  const ErrorFormat format = error_format_of(request);
  Response response =
      error_response({.fault = fault, .side = Side::client, .detail = problem}, format);
  if (format == ErrorFormat::grpc) {
    request.info.outcome.grpc_status = static_cast<std::uint8_t>(grpc_status_of(fault));
  }
  request.info.outcome.status = response.status;
  request.info.outcome.fault = fault;
  callbacks_.refused({fault, response.status, problem, request.method, request.path, request.info});
  return response;
}

/// One request and its response.
Task<void> Http2Frontend::exchange(ServerStream& stream) {
  Request& request = stream.request_;
  std::shared_ptr<Handler> plan;  // until the response has ended
  Response response;
  if (auto refusal = refusal_of(stream)) {
    response = std::move(*refusal);
  } else {
    request.interim = &stream;
    if (!stream.received_all() || stream.received() > 0) {
      request.body = std::make_unique<RequestBody>(stream);
    }
    request.info.timings.head_received = loop().now();
    plan = callbacks_.plan();
    auto result = co_await plan->handle(request);
    if (!result && result.error().fault == Fault::client_gone) {
      reset(stream, NGHTTP2_CANCEL);
      finish(stream);
      co_return;
    }
    response =
        result ? std::move(*result) : error_response(result.error(), error_format_of(request));
  }
  if (stream.attached()) {
    auto sent = co_await respond(stream, response);
    if (!sent) {
      request.info.outcome.fault = sent.error().fault;
      // A body that breaks off must not look complete.
      reset(stream, sent.error().side == Side::client ? NGHTTP2_CANCEL : NGHTTP2_INTERNAL_ERROR);
    }
  }
  request.info.outcome.bytes_out = stream.sent();
  response.body.reset();
  finish(stream);
}

/// Sends a response; errors are what keeps it from being complete.
Task<Result<Done>> Http2Frontend::respond(ServerStream& stream, Response& response) {
  Request& request = stream.request_;
  const bool bodiless =
      request.method == "HEAD" || response.status == 204 || response.status == 304;
  if (bodiless && response.body && !response.declared_length && response.status != 204) {
    response.declared_length = response.body->length();
  }
  if (!bodiless) response.declared_length.reset();
  if (bodiless || response.body == nullptr || response.body->length() == 0u) {
    submit_head(stream, response, true);
    co_return Done{};
  }
  auto next = response.body->read();
  if (next.ready()) {
    auto first = next.take();
    if (!first) {
      if (first.error().fault == Fault::client_gone) co_return std::move(first.error());
      Response failure = error_response(first.error(), error_format_of(request));
      if (!request.info.identity.request_id.empty()) {
        failure.fields.add("x-request-id", request.info.identity.request_id);
      }
      request.info.outcome.fault = first.error().fault;
      response.body.reset();
      response = std::move(failure);
      if (response.body == nullptr) {
        submit_head(stream, response, true);
        co_return Done{};
      }
      next = response.body->read();
    } else {
      next = Task<Result<Chunk>>(std::move(*first));
    }
  }
  submit_head(stream, response, false);
  auto pumping = stream.pump(*response.body, std::move(next), options_.write_timeout);
  auto sent = co_await pumping;
  request.info.outcome.bytes_out = stream.sent();
  co_return sent;
}

void Http2Frontend::submit_head(ServerStream& stream, const Response& response, bool last) {
  stream.response_begun_ = true;
  stream.request_.info.outcome.status = response.status;
  // Copied: whoever has wrapped the body may let go of what it came from before the head is
  // written.
  Http2HeaderBlock& section = Http2HeaderBlock::scratch(Http2HeaderBlock::Values::copied);
  section.add_status(response.status);
  section.add_all(response.fields, should_refresh_hpack());
  if (response.declared_length) {
    section.add_length(*response.declared_length);
  } else if (!last) {
    if (const auto length = response.body->length()) section.add_length(*length);
  }
  stream.submit_response(section, last);
  want_flush();
}

/// The response is on its way, or will never be.
void Http2Frontend::finish(ServerStream& stream) {
  if (!stream.attached()) {
    retire(stream);
  } else if (!stream.received_all()) {
    // What is still missing of the request is of no use (RFC 9113 8.1).
    reset_when_sent(stream, NGHTTP2_NO_ERROR);
  }
}

void Http2Frontend::stream_closed(Http2Stream& closed, std::uint32_t code, bool by_peer) {
  auto& stream = static_cast<ServerStream&>(closed);
  if (section_ == &closed) section_ = nullptr;
  if (!stream.head_done_) {  // a head that the library found malformed
    RequestInfo info = make_request_info();
    info.outcome.fault = by_peer ? Fault::client_gone : Fault::bad_request;
    callbacks_.refused({*info.outcome.fault, 0, "a malformed request", stream.request_.method,
                        stream.request_.path, info});
  }
  if ((by_peer || code != NGHTTP2_NO_ERROR) && !stream.end_sent()) {
    stream.request_.info.outcome.fault = Fault::client_gone;
    stream.fail_with({.fault = Fault::client_gone,
                      .side = Side::client,
                      .detail = "the client reset the stream"});
  }
  retire(stream);
}

/// Has a stream destroyed, with all that waits in it, when nothing of it runs: the request's
/// backend sees it at once.
void Http2Frontend::retire(ServerStream& stream) {
  if (stream.retired_) return;
  stream.retired_ = true;
  if (!stream.begun_) std::erase(begun_, &stream);  // it came and went in what is being read
  stream.request_.info.outcome.bytes_out = stream.sent();
  stream.unlink();
  stream.insert_before(retired_);
  loop().wake_soon(retired_waiter_);
  if (--active_ > 0) return;
  become_idle();
  if (final_goaway_sent_) want_flush();  // which ends the connection
}

void Http2Frontend::destroy_retired() {
  while (retired_.linked()) delete static_cast<ServerStream*>(retired_.next);
}

// ---- the end ----------------------------------------------------------------------------------

/// The first of two GOAWAYs: no new streams, please. Those that are on their way are still served.
void Http2Frontend::begin_drain() {
  if (draining_ || ended()) return;
  draining_ = true;
  draining_since_ = loop().now();
  nghttp2_submit_shutdown_notice(session());
  ping();
  socket().watch().interrupt();
}

void Http2Frontend::ping_answered() {
  if (draining_ && !final_goaway_sent_) send_final_goaway();
}

/// The second: these were the last.
void Http2Frontend::send_final_goaway() {
  final_goaway_sent_ = true;
  submit_final_goaway();
}

Instant Http2Frontend::deadline() {
  Instant earliest = never;
  const auto until = [&earliest](Instant instant) { earliest = std::min(earliest, instant); };
  if (!settings_received_) until(opened_ + options_.header_timeout);
  if (!settings_acknowledged()) until(opened_ + settings_timeout);
  if (section_ != nullptr) until(headers_started_at_ + options_.header_timeout);
  if (draining_ && !final_goaway_sent_) until(draining_since_ + goaway_timeout);
  return earliest;
}

bool Http2Frontend::continue_after_wait(bool expired) {
  if (close_if_idle_ && active_ == 0) {
    nghttp2_session_terminate_session(session(), NGHTTP2_NO_ERROR);
    return false;
  }
  close_if_idle_ = false;
  if (!expired) return true;
  const Instant now = loop().now();
  if (!settings_received_ && now >= opened_ + options_.header_timeout) return false;
  if (!settings_acknowledged() && now >= opened_ + settings_timeout) {
    on_violation({NGHTTP2_SETTINGS_TIMEOUT, "SETTINGS are not acknowledged"});
    nghttp2_session_terminate_session(session(), NGHTTP2_SETTINGS_TIMEOUT);
    return false;
  }
  if (section_ != nullptr && now >= headers_started_at_ + options_.header_timeout) {
    auto& stream = static_cast<ServerStream&>(*section_);
    RequestInfo info = make_request_info();
    info.outcome.fault = Fault::header_timeout;
    callbacks_.refused({Fault::header_timeout, 0, "the header section stalls",
                        stream.request_.method, stream.request_.path, info});
    nghttp2_session_terminate_session(session(), NGHTTP2_PROTOCOL_ERROR);
    return false;
  }
  if (draining_ && !final_goaway_sent_ && now >= draining_since_ + goaway_timeout)
    send_final_goaway();
  return true;
}

void Http2Frontend::on_violation(const Http2Guard::Violation& violation) {
  RequestInfo info = make_request_info();
  info.timings.started = loop().now();
  info.outcome.fault = Fault::flood;
  callbacks_.refused({Fault::flood, 0, violation.detail, {}, {}, info});
}

}  // namespace

Task<void> serve_http2(std::unique_ptr<Socket> socket, const ClientAddress& client,
                       const FrontendOptions& options, FrontendCallbacks& callbacks,
                       ReadBuffer received) {
  return Http2Frontend::serve(
      std::make_unique<Http2Frontend>(std::move(socket), client, options, callbacks),
      std::move(received));
}

}  // namespace evenkeel
