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

constexpr Duration settings_patience = std::chrono::seconds(10);
constexpr Duration goaway_patience = std::chrono::seconds(1);  // for the answer to our ping
constexpr int most_unsent = 128 * 1024;                        // in the kernel, for a slow reader

class Http2Frontend;

/// One request and its response.
class ServerStream final : public Http2Stream, public Interim, public Node {
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
  bool dead_ = false;
  Task<void> task_;
};

class Http2Frontend final : public Http2Connection {
 public:
  Http2Frontend(std::unique_ptr<Socket> socket, const ClientName& client,
                const FrontendOptions& options, Host& host);
  ~Http2Frontend() override;

  static Task<void> serve(std::unique_ptr<Http2Frontend> self, ReadBuffer received);

 private:
  friend class ServerStream;
  friend class RequestBody;

  // ---- Http2Connection ----
  Http2Stream* begin_message(std::int32_t id) override;
  void headers_done(Http2Stream& stream, bool last) override;
  void section_refused(Http2Stream& stream) override;
  void stream_closed(Http2Stream& stream, std::uint32_t code, bool by_peer) override;
  void goaway_received(std::int32_t, std::uint32_t) override {}
  void settings_received() override { greeted_ = true; }
  void ping_answered() override;
  void after_reading() override;
  Instant deadline() override;
  bool waited_long_enough(bool expired) override;
  void violated(const Http2Guard::Violation& violation) override;

  Task<void> exchange(ServerStream& stream);
  Task<Result<Done>> respond(ServerStream& stream, Response& response);
  void submit_head(ServerStream& stream, const Response& response, bool last);
  std::optional<Response> refusal_of(ServerStream& stream);
  void finish(ServerStream& stream);
  void bury(ServerStream& stream);
  void reap();
  void rest();
  void drop_streams();
  void begin_leaving();
  void take_leave();
  About begin_about() const;

  struct Told : Waiter {
    using Tell = void (Http2Frontend::*)();
    Told(Http2Frontend& owner, Tell member)
        : Waiter([](Waiter& self) {
            auto& told = static_cast<Told&>(self);
            (told.frontend.*told.tell)();
          }),
          frontend(owner),
          tell(member) {}
    Http2Frontend& frontend;
    Tell tell;
  };
  struct IdleEnd : Timer {
    explicit IdleEnd(Http2Frontend& owner)
        : Timer([](Timer& self) { static_cast<IdleEnd&>(self).frontend.make_room(); }),
          frontend(owner) {}
    Http2Frontend& frontend;
  };
  /// Ends the connection if it is idle.
  void make_room() {
    shed_ = true;
    socket().watch().interrupt();
  }

  const FrontendOptions& options_;
  Host& host_;
  const ClientName client_;
  const TlsFacts* const tls_;
  bool greeted_ = false;  // its first SETTINGS have come
  bool shed_ = false;
  bool leaving_ = false;
  bool said_goodbye_ = false;
  std::uint32_t active_ = 0;
  Instant opened_;
  Instant leaving_since_{};
  Instant section_began_{};
  Http2Stream* section_ = nullptr;  // whose header section is being read
  Node streams_;
  Node dead_;                         // to be destroyed when none of them runs
  std::vector<ServerStream*> begun_;  // whose heads came with what is being read
  IdleEnd idle_end_{*this};
  Told idle_{*this, &Http2Frontend::make_room};
  Told drain_{*this, &Http2Frontend::begin_leaving};
  Told reaper_{*this, &Http2Frontend::reap};
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
    stream_.request_.about.bytes_in = 0;
    return true;
  }

 private:
  Task<Result<Chunk>> wait() {
    Http2Frontend& frontend = stream_.owner_;
    if (std::exchange(stream_.head_.expects_continue, false)) stream_.interim(100, Fields());
    while (true) {
      const bool patient = stream_.request_.about.open_ended;
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
    About& about = stream_.request_.about;
    about.bytes_in += chunk->bytes.size();
    stream_.head_.expects_continue = false;
    if (!about.open_ended && about.bytes_in > stream_.owner_.options_.body_bytes) {
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
  Http2Section& section = Http2Section::fresh(Http2Section::Bytes::go);
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

Http2Frontend::Http2Frontend(std::unique_ptr<Socket> socket, const ClientName& client,
                             const FrontendOptions& options, Host& host)
    : Http2Connection(std::move(socket), settings_of(options)),
      options_(options),
      host_(host),
      client_(client),
      tls_(this->socket().tls()),
      opened_(loop().now()) {
  this->socket().limit_unsent(most_unsent);
}

Http2Frontend::~Http2Frontend() {
  if (!ended()) {  // we leave: dropped with the loop
    drop_streams();
    fail(NGHTTP2_NO_ERROR, "leaving");
  }
  host_.closed(options_);
}

/// Ends what is under way; the client gets no more of it.
void Http2Frontend::drop_streams() {
  for (Node* list : {&streams_, &dead_}) {
    while (list->linked()) {
      auto& stream = static_cast<ServerStream&>(*list->next);
      stream.request_.about.bytes_out = stream.sent();
      if (!stream.end_sent() && ended()) stream.request_.about.fault = Fault::client_gone;
      delete &stream;
    }
  }
}

Task<void> Http2Frontend::serve(std::unique_ptr<Http2Frontend> self, ReadBuffer received) {
  Http2Frontend& c = *self;
  c.open();
  c.rest();
  c.host_.watch_drain(c.drain_);
  if (c.host_.draining()) c.begin_leaving();
  co_await c.run(std::move(received));
  c.idle_.leave();
  c.idle_end_.disarm();
  c.drain_.leave();
  c.drop_streams();
  co_await c.linger();
}

/// No request is under way.
void Http2Frontend::rest() {
  host_.idle_connections().add(idle_);
  idle_end_.arm(loop(), loop().now() + options_.idle_timeout);
}

About Http2Frontend::begin_about() const {
  const bool certified = tls_ != nullptr && tls_->verified;
  return About{.started = section_began_,
               .listener = options_.listener,
               .client = client_.text(),
               .client_port = client_.port(),
               .protocol = "HTTP/2",
               .trusted = client_.trusted(),
               .secure = tls_ != nullptr,
               .certificate_subject = certified ? tls_->certificate_subject : std::string_view(),
               .certificate_hash = certified ? tls_->certificate_hash : std::string_view()};
}

Http2Stream* Http2Frontend::begin_message(std::int32_t) {
  auto* stream = new ServerStream(*this);
  stream->insert_before(streams_);
  if (active_++ == 0) {
    idle_.leave();
    idle_end_.disarm();
  }
  section_began_ = loop().now();
  section_ = stream;
  return stream;
}

void Http2Frontend::headers_done(Http2Stream& ended, bool last) {
  auto& stream = static_cast<ServerStream&>(ended);
  section_ = nullptr;
  if (last) stream.end_in();
  if (stream.head_done_) {  // these were trailers
    if (stream.over_limits() && stream.begun_) {
      reset(stream, NGHTTP2_ENHANCE_YOUR_CALM);
      stream.request_.about.fault = Fault::header_too_large;
      bury(stream);
    }
    return;
  }
  stream.head_done_ = true;
  stream.request_.about = begin_about();
  begun_.push_back(&stream);
}

void Http2Frontend::section_refused(Http2Stream& refused) {
  auto& stream = static_cast<ServerStream&>(refused);
  section_ = nullptr;
  stream.request_.about = begin_about();
  stream.request_.about.fault = Fault::header_too_large;
  host_.refused({Fault::header_too_large, 0, "the header section is far too large",
                 stream.request_.method, stream.request_.path, stream.request_.about});
  bury(stream);
}

/// What was read of requests has been handled: those that are complete enough begin.
void Http2Frontend::after_reading() {
  for (std::size_t i = 0; i < begun_.size(); ++i) {
    ServerStream& stream = *begun_[i];
    if (stream.dead_ || stream.begun_) continue;
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
  const Dialect dialect = dialect_of(request);
  Response response =
      error_response({.fault = fault, .side = Side::client, .detail = problem}, dialect);
  if (dialect == Dialect::grpc) {
    request.about.grpc_status = static_cast<std::uint8_t>(grpc_status_of(fault));
  }
  request.about.status = response.status;
  request.about.fault = fault;
  host_.refused({fault, response.status, problem, request.method, request.path, request.about});
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
    request.about.received = loop().now();
    plan = host_.plan();
    auto result = co_await plan->handle(request);
    if (!result && result.error().fault == Fault::client_gone) {
      reset(stream, NGHTTP2_CANCEL);
      finish(stream);
      co_return;
    }
    response = result ? std::move(*result) : error_response(result.error(), dialect_of(request));
  }
  if (stream.attached()) {
    auto sent = co_await respond(stream, response);
    if (!sent) {
      request.about.fault = sent.error().fault;
      // A body that breaks off must not look complete.
      reset(stream, sent.error().side == Side::client ? NGHTTP2_CANCEL : NGHTTP2_INTERNAL_ERROR);
    }
  }
  request.about.bytes_out = stream.sent();
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
      Response failure = error_response(first.error(), dialect_of(request));
      if (!request.about.request_id.empty()) {
        failure.fields.add("x-request-id", request.about.request_id);
      }
      request.about.fault = first.error().fault;
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
  request.about.bytes_out = stream.sent();
  co_return sent;
}

void Http2Frontend::submit_head(ServerStream& stream, const Response& response, bool last) {
  stream.response_begun_ = true;
  stream.request_.about.status = response.status;
  // Copied: whoever has wrapped the body may let go of what it came from before the head is
  // written.
  Http2Section& section = Http2Section::fresh(Http2Section::Bytes::go);
  section.add_status(response.status);
  section.add_all(response.fields, learns());
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
    bury(stream);
  } else if (!stream.received_all()) {
    // What is still missing of the request is of no use (RFC 9113 8.1).
    reset_when_sent(stream, NGHTTP2_NO_ERROR);
  }
}

void Http2Frontend::stream_closed(Http2Stream& closed, std::uint32_t code, bool by_peer) {
  auto& stream = static_cast<ServerStream&>(closed);
  if (section_ == &closed) section_ = nullptr;
  if (!stream.head_done_) {  // a head that the library found malformed
    About about = begin_about();
    about.fault = by_peer ? Fault::client_gone : Fault::bad_request;
    host_.refused({*about.fault, 0, "a malformed request", stream.request_.method,
                   stream.request_.path, about});
  }
  if ((by_peer || code != NGHTTP2_NO_ERROR) && !stream.end_sent()) {
    stream.request_.about.fault = Fault::client_gone;
    stream.break_off({.fault = Fault::client_gone,
                      .side = Side::client,
                      .detail = "the client reset the stream"});
  }
  bury(stream);
}

/// Has a stream destroyed, with all that waits in it, when nothing of it runs: the request's
/// backend sees it at once.
void Http2Frontend::bury(ServerStream& stream) {
  if (stream.dead_) return;
  stream.dead_ = true;
  if (!stream.begun_) std::erase(begun_, &stream);  // it came and went in what is being read
  stream.request_.about.bytes_out = stream.sent();
  stream.unlink();
  stream.insert_before(dead_);
  loop().wake_soon(reaper_);
  if (--active_ > 0) return;
  rest();
  if (said_goodbye_) want_flush();  // which ends the connection
}

void Http2Frontend::reap() {
  while (dead_.linked()) delete static_cast<ServerStream*>(dead_.next);
}

// ---- the end ----------------------------------------------------------------------------------

/// The first of two GOAWAYs: no new streams, please. Those that are on their way are still served.
void Http2Frontend::begin_leaving() {
  if (leaving_ || ended()) return;
  leaving_ = true;
  leaving_since_ = loop().now();
  nghttp2_submit_shutdown_notice(session());
  ping();
  socket().watch().interrupt();
}

void Http2Frontend::ping_answered() {
  if (leaving_ && !said_goodbye_) take_leave();
}

/// The second: these were the last.
void Http2Frontend::take_leave() {
  said_goodbye_ = true;
  say_goodbye();
}

Instant Http2Frontend::deadline() {
  Instant earliest = never;
  const auto until = [&earliest](Instant instant) { earliest = std::min(earliest, instant); };
  if (!greeted_) until(opened_ + options_.header_timeout);
  if (!settings_acknowledged()) until(opened_ + settings_patience);
  if (section_ != nullptr) until(section_began_ + options_.header_timeout);
  if (leaving_ && !said_goodbye_) until(leaving_since_ + goaway_patience);
  return earliest;
}

bool Http2Frontend::waited_long_enough(bool expired) {
  if (shed_ && active_ == 0) {
    nghttp2_session_terminate_session(session(), NGHTTP2_NO_ERROR);
    return false;
  }
  shed_ = false;
  if (!expired) return true;
  const Instant now = loop().now();
  if (!greeted_ && now >= opened_ + options_.header_timeout) return false;
  if (!settings_acknowledged() && now >= opened_ + settings_patience) {
    violated({NGHTTP2_SETTINGS_TIMEOUT, "SETTINGS are not acknowledged"});
    nghttp2_session_terminate_session(session(), NGHTTP2_SETTINGS_TIMEOUT);
    return false;
  }
  if (section_ != nullptr && now >= section_began_ + options_.header_timeout) {
    auto& stream = static_cast<ServerStream&>(*section_);
    About about = begin_about();
    about.fault = Fault::header_timeout;
    host_.refused({Fault::header_timeout, 0, "the header section stalls", stream.request_.method,
                   stream.request_.path, about});
    nghttp2_session_terminate_session(session(), NGHTTP2_PROTOCOL_ERROR);
    return false;
  }
  if (leaving_ && !said_goodbye_ && now >= leaving_since_ + goaway_patience) take_leave();
  return true;
}

void Http2Frontend::violated(const Http2Guard::Violation& violation) {
  About about = begin_about();
  about.started = loop().now();
  about.fault = Fault::flood;
  host_.refused({Fault::flood, 0, violation.detail, {}, {}, about});
}

}  // namespace

Task<void> serve_http2(std::unique_ptr<Socket> socket, const ClientName& client,
                       const FrontendOptions& options, Host& host, ReadBuffer received) {
  return Http2Frontend::serve(
      std::make_unique<Http2Frontend>(std::move(socket), client, options, host),
      std::move(received));
}

}  // namespace evenkeel
