// The backend side of HTTP/2: one connection, many concurrent requests.
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "evenkeel/http/credentials.h"
#include "evenkeel/net/websocket_key.h"
#include "evenkeel/wire/link.h"
#include "evenkeel/wire/link_body.h"
#include "http2_keepalive.h"
#include "http2_message.h"
#include "http2_session.h"
#include "http2_stream.h"
#include "message_rules.h"
#include "silence_limit.h"

namespace evenkeel {
namespace {

constexpr std::uint32_t max_streams = 1000;  // at a time, even if the backend allows more
constexpr int max_interim_responses = 16;
/// A backend that closes an idle link may do so while the next request is on its way. A close
/// within this time of the request counts as such a race.
constexpr Duration max_idle_close_race = std::chrono::seconds(1);
/// Servers end a connection on which many streams are reset (nghttp2: 1000 at once, then 33 a
/// second), and with it all other requests on it. After 500, less 20 for each second, a link gets
/// no new requests.
constexpr double max_resets = 500;
/// A link gets no new requests while the backend has let it send nothing for so long. It may be
/// slow, or may count what was sent on streams that were reset since: then it never will.
constexpr Duration max_closed_window = std::chrono::seconds(1);
constexpr double resets_forgotten_per_second = 20;

Error backend_error(Fault fault, std::string detail) {
  return {.fault = fault, .side = Side::backend, .detail = std::move(detail)};
}

/// An upload that makes no progress is reported as a `write_timeout`, which elsewhere means the
/// client. Here the slow reader is the backend.
Error attribute_to_backend(Error error) {
  if (error.fault == Fault::write_timeout) {
    return backend_error(Fault::idle_timeout, "the backend reads nothing of the request");
  }
  return error;
}

class Http2Link;

/// One request and its response.
class ClientStream final : public Http2Stream, public Node {
 public:
  ClientStream(Http2Link& link, Request& request);
  ~ClientStream() override;

  void field(const Field& field) override;
  void headers_complete(bool last) override;
  void closed(std::uint32_t code, bool by_peer) override;
  /// Ends a wait for `arrival`, so that the waiting coroutine checks the stream again.
  void wake_reader() { arrived(); }
  using Http2Stream::has_trailers;

  /// True if the final response's head has arrived.
  bool answered() const { return answered_; }
  /// True if the request changes nothing (RFC 9110, 9.2.1), so it may be sent again.
  bool is_safe() const {
    return request_.method == "GET" || request_.method == "HEAD" || request_.method == "OPTIONS";
  }
  /// Why the upload failed, unless the backend ended the stream, which then has the error.
  std::optional<Error> upload_failure();
  /// Counts from the end of the upload.
  Instant first_byte_deadline();

 private:
  friend class Http2Link;

  void send_end();
  void handle_interim(bool last);
  bool near_deadline() const;
  bool awaits_client() const;

  Task<Result<Done>> upload(Body& body, Task<Result<Chunk>> first, Duration timeout);

  Http2Link& link_;
  Request& request_;
  int status_ = 0;
  Instant sent_at_{};
  Instant first_byte_deadline_ = never;
  int interim_left_ = max_interim_responses;
  bool answered_ = false;
  bool uploading_ = false;
  bool tunnel_ = false;  // asked for by extended CONNECT
  Fields fields_;
  std::optional<std::uint64_t> length_;
  Task<Result<Done>> upload_;
};

class Http2Link final : public Link, public Http2Side, public Pooled {
 public:
  Http2Link(std::unique_ptr<Socket> socket, const LinkOptions& options);
  ~Http2Link() override { running_.drop(); }

  void start() {
    session_.open();
    running_ = serve_connection();
  }
  /// Waits for the SETTINGS of the backend.
  Task<Result<Done>> established(Instant deadline);

  // ---- Link ----
  Task<Result<Response>> send(Request& request) override;
  std::size_t available_capacity() const override;
  bool multiplexed() const override { return true; }
  bool alive(bool) override { return !session_.ended() && !draining_ && !worn_; }
  bool ended_in_order() const override;
  void on_idle_close(Waiter* waiter) override { idle_close_waiter_ = waiter; }
  void suspect(Duration max_silence) override;

 private:
  friend class ClientStream;
  class ResponseBody;

  // ---- Http2Side ----
  void on_event(Http2Event event) override;

  Loop& loop() { return session_.loop(); }
  const Loop& loop() const { return session_.loop(); }
  Task<void> serve_connection();
  bool exceeds_header_limit(const Request& request);
  bool offers_tunnels();
  void submit_head(ClientStream& stream, const Request& request);
  void finish_handshake(ClientStream& stream, Request& request, Response& response);
  static std::optional<std::uint64_t> body_length(const ClientStream& stream,
                                                  const Request& request, Response& response);
  void count_reset();
  void notify_pool();
  Error connection_lost(const ClientStream& stream);

  LinkOptions options_;
  Http2Session session_;
  bool settings_received_ = false;
  bool draining_ = false;  // after a GOAWAY
  bool worn_ = false;      // too many of its streams were reset
  bool served_ = false;    // a request has been answered
  double resets_ = 0;      // of ours, as of `last_reset_`
  Instant last_reset_{};
  SilenceLimit silence_;
  Node streams_;
  Waiter* idle_close_waiter_ = nullptr;
  Signal settings_signal_;
  Http2Keepalive keepalive_;
  Task<void> running_;
};

/// The body of a response. Owns its stream.
class Http2Link::ResponseBody final : public LinkBody {
 public:
  ResponseBody(std::unique_ptr<ClientStream> stream, std::optional<std::uint64_t> length)
      : stream_(std::move(stream)), length_(length), delay_(stream_->session().loop().now()) {
    awaits_beginning_ = !length_ && !stream_->tunnel_;
  }

  Task<Result<Chunk>> read() override {
    delay_.asked(stream_->session().loop().now());
    if (auto chunk = take()) return std::move(*chunk);
    return wait();
  }
  std::optional<std::uint64_t> length() const override { return length_; }

 private:
  /// Servers send the head of a stream before they begin to work on it, so the timeout for the head
  /// continues until the body begins.
  Task<Result<Chunk>> wait() {
    Loop& loop = stream_->session().loop();
    const Duration timeout = stream_->link_.options_.idle_timeout;
    std::uint64_t uploaded = stream_->sent();
    Instant began = loop.now();
    while (true) {
      const bool first = awaits_beginning_ && !stream_->uploading_;
      const Instant own = first ? stream_->first_byte_deadline() : began + timeout;
      auto wake = co_await stream_->arrival(stream_->link_.silence_.shorten(own, began));
      delay_.waited(loop.now());
      if (auto chunk = take()) co_return std::move(*chunk);
      if (auto failure = stream_->upload_failure()) co_return std::move(*failure);
      if (wake != Wake::expired) continue;
      if (first) {
        co_return backend_error(Fault::first_byte_timeout, "the backend sent no output in time");
      }
      if (std::exchange(uploaded, stream_->sent()) == stream_->sent()) {
        if (stream_->awaits_client()) note_awaited_client();
        co_return backend_error(Fault::idle_timeout, "the backend sent nothing for too long");
      }
      began = loop.now();
    }
  }

  /// A backend that ends a stream whose reader has held it up has waited for the client.
  std::optional<Result<Chunk>> take() {
    auto chunk = stream_->take();
    if (chunk) awaits_beginning_ = false;
    if (chunk && !*chunk && delay_.is_long()) {
      const bool by_backend =
          chunk->error().reset_code.has_value() || stream_->session().closed_by_peer();
      if (by_backend) note_awaited_client();
    }
    return chunk;
  }

  std::unique_ptr<ClientStream> stream_;
  std::optional<std::uint64_t> length_;
  ReaderDelay delay_;
};

// ---- streams ----------------------------------------------------------------------------------

ClientStream::ClientStream(Http2Link& link, Request& request)
    : Http2Stream(link.session_, request.response_budget), link_(link), request_(request) {
  insert_before(link.streams_);
}

/// Cancels the request at the backend if it or its response is incomplete.
ClientStream::~ClientStream() {
  upload_.drop();
  if (tunnel_ && attached() && received_all() && all_sent() && !end_sent()) [[unlikely]]
    send_end();  // of a tunnel that the backend has ended; a reset would look like an abort
  if (received_all() && end_sent()) {
    session().detach(*this);
  } else {
    session().reset(*this, NGHTTP2_CANCEL);
    link_.count_reset();
  }
}

/// Ends the request without any more bytes, at once: the stream may be dropped afterwards.
void ClientStream::send_end() {
  set_chunk({.last = true});
  session().flush();
}

void ClientStream::field(const Field& field) {
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

std::optional<Error> ClientStream::upload_failure() {
  if (!upload_.valid() || !upload_.ready()) return std::nullopt;
  auto uploaded = upload_.take();
  // If the backend ended the stream, `cause` says why.
  if (uploaded || !attached()) return std::nullopt;
  return attribute_to_backend(std::move(uploaded.error()));
}

Instant ClientStream::first_byte_deadline() {
  if (uploading_) return never;
  if (first_byte_deadline_ == never) {
    first_byte_deadline_ = link_.loop().now() + link_.options_.first_byte_timeout;
  }
  return first_byte_deadline_;
}

Task<Result<Done>> ClientStream::upload(Body& body, Task<Result<Chunk>> first, Duration timeout) {
  uploading_ = true;
  auto pumping = pump(body, std::move(first), timeout, request_.awaiting_clients);
  auto sent = co_await pumping;
  uploading_ = false;
  if (sent) request_.info.timings.uploaded = link_.loop().now();
  wake_reader();
  co_return sent;
}

// ---- the link ---------------------------------------------------------------------------------

Http2Link::Http2Link(std::unique_ptr<Socket> socket, const LinkOptions& options)
    : options_(options),
      session_(std::move(socket),
               {.side = Http2Guard::Side::client,
                .stream_window = 16 * 1024,
                .wide_stream_window = 64 * 1024,
                .connection_window = 16 * 1024 * 1024,
                .header_bytes = options.header_bytes,
                .header_fields = options.header_fields,
                .write_timeout = options.idle_timeout},
               *this),
      settings_signal_(loop()),
      keepalive_(session_, silence_, options_) {}

Task<void> Http2Link::serve_connection() {
  co_await session_.run({});
  draining_ = true;
  settings_signal_.raise();
  for (Node* node = streams_.next; node != &streams_; node = node->next) {
    auto& stream = static_cast<ClientStream&>(*node);
    if (!stream.received_all()) stream.fail_with(connection_lost(stream));
    session_.detach(stream);
  }
  notify_pool();
}

bool Http2Link::ended_in_order() const {
  const auto code = session_.peer_goaway();
  return code && (*code == NGHTTP2_NO_ERROR || *code == NGHTTP2_ENHANCE_YOUR_CALM) &&
         session_.ended() && session_.closed_by_peer();
}

/// The error of a request whose connection ended.
Error Http2Link::connection_lost(const ClientStream& stream) {
  Error error = backend_error(Fault::backend_closed, session_.failure());
  error.awaited_client = session_.closed_by_peer() && !stream.answered() && stream.awaits_client();
  // As with HTTP/1: nothing arrived after the request, so it was probably closing an idle link.
  const bool nothing_received =
      !stream.answered() && stream.received() == 0 && session_.last_read_at() < stream.sent_at_;
  const Duration since = loop().now() - stream.sent_at_;
  const bool closes_idle = served_ && since < max_idle_close_race;
  error.idle_close_race =
      nothing_received && (closes_idle || (keepalive_.failed() && stream.is_safe()));
  return error;
}

Task<Result<Done>> Http2Link::established(Instant deadline) {
  while (!settings_received_ && !session_.ended() && !draining_) {
    auto wake = co_await settings_signal_.wait(deadline);
    if (wake == Wake::expired) {
      co_return backend_error(Fault::connect_timeout,
                              "the backend did not answer the HTTP/2 preface");
    }
  }
  if (settings_received_ && !session_.ended()) co_return Done{};
  co_return backend_error(Fault::backend_protocol, "the backend does not speak HTTP/2");
}

std::size_t Http2Link::available_capacity() const {
  if (session_.ended() || draining_ || worn_ || !settings_received_ ||
      !session_.may_open_streams() || session_.ping_unanswered() ||
      session_.window_closed_for() >= max_closed_window)
    return 0;
  const std::uint32_t limit = std::min(max_streams, session_.streams_allowed());
  const std::uint32_t open = session_.open_streams();
  return limit > open ? limit - open : 0;
}

void Http2Link::count_reset() {
  const Instant now = loop().now();
  const std::chrono::duration<double> since = now - last_reset_;
  resets_ = std::max(0.0, resets_ - since.count() * resets_forgotten_per_second) + 1;
  last_reset_ = now;
  if (resets_ > max_resets) worn_ = true;
}

/// True if the head is larger than the backend's SETTINGS allow: some servers end the connection
/// for such a request, and with it all others on it.
bool Http2Link::exceeds_header_limit(const Request& request) {
  constexpr std::size_t per_field = 32;  // RFC 9113, section 6.5.2
  constexpr std::size_t own =
      6 * per_field + 7 + 7 + 10 + 5 + 5 + 2 + 8 + 14 + 20;  // pseudo-fields
  const std::size_t limit = nghttp2_session_get_remote_settings(
      session_.nghttp2(), NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE);
  if (limit == UINT32_MAX) return false;
  constexpr std::size_t protocol = per_field + 9 + 9;
  const std::size_t pseudo_fields = request.upgrade.empty() ? own : own + protocol;
  std::size_t size = pseudo_fields + request.method.size() + request.path.size() +
                     authority_for_backend(request).size();
  for (const Field& field : request.fields) {
    size += field.name().size() + field.value().size() + per_field;
  }
  return size > limit;
}

/// True if the backend takes an upgrade as extended CONNECT (RFC 8441).
bool Http2Link::offers_tunnels() {
  return nghttp2_session_get_remote_settings(session_.nghttp2(),
                                             NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 1;
}

void Http2Link::submit_head(ClientStream& stream, const Request& request) {
  auto section = std::make_unique<Http2Section>(Http2Section::Values::borrowed);
  section->add(":method", stream.tunnel_ ? "CONNECT" : request.method);
  if (stream.tunnel_) [[unlikely]]
    section->add(":protocol", request.upgrade);
  section->add(":scheme", session_.socket().tls() != nullptr ? "https" : "http");
  const std::string_view authority = authority_for_backend(request);
  if (!authority.empty()) section->add(":authority", authority);
  section->add(":path", request.path, FieldId::other,
               request.path_never_indexed || target_holds_credential(request.path));
  section->add_all(request.fields);
  if (request.wants_trailers) section->add("te", "trailers", FieldId::te);
  if (stream.tunnel_) [[unlikely]]
    section->remove("sec-websocket-key");
  // A request for an upgrade has a tunnel, which must not begin before the answer, for a body.
  const Body* body = request.upgrade.empty() ? request.body.get() : nullptr;
  if (body == nullptr) {
    const bool expected =
        request.method == "POST" || request.method == "PUT" || request.method == "PATCH";
    if (expected) section->add_length(0);
  } else if (const auto length = body->length()) {
    section->add_length(*length);
  }
  stream.submit_request(std::move(section), body == nullptr && !stream.tunnel_);
}

/// Makes the answer to an extended CONNECT the answer to the upgrade that the request is for, and
/// starts the tunnel.
void Http2Link::finish_handshake(ClientStream& stream, Request& request, Response& response) {
  if (response.status >= 300) {
    if (stream.attached()) stream.send_end();  // dropping it with its answer would be a reset
    return;
  }
  response.status = 101;
  Fields& fields = response.fields;
  fields.remove("sec-websocket-accept");
  fields.add("upgrade", request.upgrade, FieldId::upgrade);
  if (const auto key = request.fields.value("sec-websocket-key")) {
    fields.add("sec-websocket-accept", fields.keep(websocket_accept(*key)));
  }
  stream.upload_ = stream.upload(*request.body, request.body->read(), options_.idle_timeout);
}

Task<Result<Response>> Http2Link::send(Request& request) {
  if (available_capacity() == 0) {
    Error full = backend_error(Fault::backend_closed, "the link takes no more requests");
    full.not_processed = true;
    co_return full;
  }
  if (exceeds_header_limit(request)) [[unlikely]] {
    co_return Error{.fault = Fault::header_too_large,
                    .side = Side::client,
                    .detail = "the request head is larger than the backend accepts"};
  }
  Body* body = request.upgrade.empty() ? request.body.get() : nullptr;
  Task<Result<Chunk>> first;
  if (body != nullptr) {
    first = body->read();
    if (first.ready()) {
      auto chunk = first.take();
      if (!chunk) co_return std::move(chunk.error());  // nothing was sent: the link stays usable
      first = Task<Result<Chunk>>(*chunk);
    }
  }
  auto stream = std::make_unique<ClientStream>(*this, request);
  stream->tunnel_ = !request.upgrade.empty() && request.body != nullptr && offers_tunnels();
  using RequestMethod = Http2MessageCheck::RequestMethod;
  if (request.method == "HEAD") stream->expect_answer_to(RequestMethod::head);
  if (stream->tunnel_) stream->expect_answer_to(RequestMethod::connect);
  submit_head(*stream, request);
  stream->sent_at_ = loop().now();
  keepalive_.on_request(stream->sent_at_);
  session_.want_flush();
  if (body != nullptr) {
    stream->upload_ = stream->upload(*body, std::move(first), options_.idle_timeout);
  } else {
    request.info.timings.uploaded = loop().now();
  }

  while (!stream->answered()) {
    if (stream->broken()) co_return Error(stream->cause());
    if (auto failure = stream->upload_failure()) co_return std::move(*failure);
    auto wake =
        co_await stream->arrival(silence_.shorten(stream->first_byte_deadline(), stream->sent_at_));
    if (wake == Wake::expired && !stream->answered()) {
      co_return backend_error(Fault::first_byte_timeout, "the backend did not answer in time");
    }
  }
  served_ = true;

  Response response{.status = stream->status_, .fields = std::move(stream->fields_)};
  if (stream->tunnel_) [[unlikely]]
    finish_handshake(*stream, request, response);
  const auto length = body_length(*stream, request, response);
  response.body = std::make_unique<ResponseBody>(std::move(stream), length);
  co_return response;
}

/// The length of a response's body, if it is known; sets the declared one.
std::optional<std::uint64_t> Http2Link::body_length(const ClientStream& stream,
                                                    const Request& request, Response& response) {
  if (response.status == 101) return std::nullopt;
  const bool bodiless =
      request.method == "HEAD" || response.status == 204 || response.status == 304;
  if (bodiless && response.status != 204) {
    response.declared_length = stream.length_;
    return std::nullopt;  // zero would be declared to the client (RFC 9110, section 8.6)
  }
  const bool ended = stream.received_all() && stream.received() == 0 && !stream.has_trailers();
  if (bodiless || ended) return 0;
  // nghttp2 does not compare the content-length of an answer to CONNECT with its body.
  return stream.tunnel_ ? std::nullopt : stream.length_;
}

void ClientStream::headers_complete(bool last) {
  if (over_limits()) {
    fail_with(backend_error(Fault::backend_protocol, "the response head is too large"));
    session().reset(*this, NGHTTP2_ENHANCE_YOUR_CALM);
    return;
  }
  if (!answered_ && status_ < 200) {
    handle_interim(last);
    return;
  }
  if (answered_ && tunnel_ && status_ < 300) {  // only DATA belongs in it (RFC 9113, section 8.5)
    fail_with(backend_error(Fault::backend_protocol, "trailers in a tunnel"));
    session().reset(*this, NGHTTP2_PROTOCOL_ERROR);
    return;
  }
  if (!answered_) {
    if (status_ > 599) {  // RFC 9110, section 15; as with HTTP/1.1
      fail_with(backend_error(Fault::backend_protocol, "invalid status"));
      session().reset(*this, NGHTTP2_PROTOCOL_ERROR);
      return;
    }
    answered_ = true;
    request_.info.timings.first_byte = link_.loop().now();
    wake_reader();
  }
  if (last) mark_remote_end();
}

void ClientStream::handle_interim(bool last) {
  const bool invalid = last || status_ < 100 || status_ == 101 || --interim_left_ < 0;
  if (invalid) {
    fail_with(backend_error(Fault::backend_protocol, "invalid or too many interim responses"));
    session().reset(*this, NGHTTP2_PROTOCOL_ERROR);
    return;
  }
  InterimHandler* interim = request_.interim;
  if (status_ != 100 && interim != nullptr) interim->interim(status_, fields_);
  fields_.clear();
  length_.reset();
  status_ = 0;
}

/// True if the deadline of a gRPC call is so near that it may have passed for the backend.
bool ClientStream::near_deadline() const {
  const RequestTimings& timings = request_.info.timings;
  if (timings.deadline == never) return false;
  const Duration tolerance =
      std::clamp<Duration>((timings.deadline - timings.started) / 10, std::chrono::milliseconds(5),
                           std::chrono::milliseconds(100));
  return link_.loop().now() >= timings.deadline - tolerance;
}

/// True if the backend has all that has come of an upload, and has waited for more. That it does
/// not wait for ever says nothing of it.
bool ClientStream::awaits_client() const {
  if (!uploading_ || end_sent() || !all_sent() || awaits_body_since() == never) return false;
  const Instant now = link_.loop().now();
  const Duration pause = now - awaits_body_since();
  return waited_for_upload(pause, awaited_body() + pause, now - sent_at_);
}

void ClientStream::closed(std::uint32_t code, bool by_peer) {
  if (received_all()) return;
  if (over_limits()) {
    fail_with(backend_error(Fault::backend_protocol, "the response head is too large"));
    return;
  }
  if (!by_peer && code != NGHTTP2_REFUSED_STREAM) {
    fail_with(backend_error(Fault::backend_protocol, std::string("invalid HTTP/2 response: ") +
                                                         nghttp2_http2_strerror(code)));
    return;
  }
  if (code == NGHTTP2_CANCEL && near_deadline()) {
    // As gRPC servers end a call whose deadline has passed; ours passes only now.
    fail_with({.fault = Fault::deadline_exceeded,
               .side = Side::proxy,
               .detail = "the deadline of the call has passed"});
    return;
  }
  Error error = backend_error(Fault::backend_closed, std::string("the backend reset the stream: ") +
                                                         nghttp2_http2_strerror(code));
  // RFC 9113, 8.7: the backend has not processed such a request. nghttp2 uses the same code for
  // streams that a GOAWAY excludes.
  error.not_processed = code == NGHTTP2_REFUSED_STREAM && !answered_;
  error.awaited_client = !error.not_processed && !answered_ && awaits_client();
  if (by_peer) {
    error.reset_code = code;
    request_.info.outcome.stream_reset = true;
  }
  fail_with(std::move(error));
}

void Http2Link::on_event(Http2Event event) {
  switch (event) {
    case Http2Event::settings_received:
      settings_received_ = true;
      settings_signal_.raise();
      break;
    case Http2Event::goaway_received:
      draining_ = true;
      if (session_.open_streams() == 0) notify_pool();
      break;
    case Http2Event::ping_answered:
    case Http2Event::violation: break;
  }
}

/// Notifies the pool in the loop's next step, since it may destroy the link, whose code may be
/// running now.
void Http2Link::notify_pool() {
  if (idle_close_waiter_ != nullptr) loop().wake_soon(*idle_close_waiter_);
}

void Http2Link::suspect(Duration max_silence) {
  silence_.set(max_silence, loop().now());
  if (session_.ended() || session_.open_streams() == 0) return;
  for (Node* node = streams_.next; node != &streams_; node = node->next) {
    static_cast<ClientStream&>(*node).wake_reader();
  }
  keepalive_.expect_answer();
}

}  // namespace

Task<Result<std::unique_ptr<Link>>> open_http2_link(std::unique_ptr<Socket> socket,
                                                    LinkOptions options, Instant deadline) {
  auto link = std::make_unique<Http2Link>(std::move(socket), options);
  link->start();
  auto ready = link->established(deadline);
  auto established = co_await ready;
  if (!established) co_return std::move(established.error());
  co_return Result<std::unique_ptr<Link>>(std::move(link));
}

}  // namespace evenkeel
