// The backend side of HTTP/2: one connection, many concurrent requests.
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "evenkeel/wire/link.h"
#include "http2_client_stream.h"
#include "http2_keepalive.h"
#include "http2_session.h"
#include "message_rules.h"
#include "silence_limit.h"

namespace evenkeel {
namespace {

constexpr std::uint32_t max_streams = 1000;  // at a time, even if the backend allows more
/// A link gets no new requests while the backend has let it send nothing for so long. It may be
/// slow, or may count what was sent on streams that were reset since: then it never will.
constexpr Duration max_closed_window = std::chrono::seconds(1);

Http2Settings settings_of(const LinkOptions& options) {
  return {.side = Http2Guard::Side::client,
          .stream_window = 16 * 1024,
          .wide_stream_window = 64 * 1024,
          .connection_window = 16 * 1024 * 1024,
          .header_bytes = options.header_bytes,
          .header_fields = options.header_fields,
          .write_timeout = options.idle_timeout};
}

class Http2Link final : public Link, public Http2Side, public Pooled {
 public:
  Http2Link(std::unique_ptr<Socket> socket, const LinkOptions& options)
      : options_(options),
        session_(std::move(socket), settings_of(options), *this),
        settings_signal_(loop()),
        keepalive_(session_, silence_, options_) {}
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
  bool alive(bool) override { return !session_.ended() && !draining_ && !resets_.exceeded(); }
  bool ended_in_order() const override;
  void on_idle_close(Waiter* waiter) override { idle_close_waiter_ = waiter; }
  void suspect(Duration max_silence) override;

 private:
  // ---- Http2Side ----
  void on_event(Http2Event event) override;

  Loop& loop() { return session_.loop(); }
  Task<void> serve_connection();
  std::uint32_t setting(nghttp2_settings_id id) {
    return nghttp2_session_get_remote_settings(session_.nghttp2(), id);
  }
  bool exceeds_header_limit(const Request& request);
  void notify_pool();

  LinkOptions options_;
  Http2Session session_;
  bool settings_received_ = false;
  bool draining_ = false;  // after a GOAWAY
  bool served_ = false;    // a request has been answered
  ResetLimit resets_;
  SilenceLimit silence_;
  Node streams_;
  Waiter* idle_close_waiter_ = nullptr;
  Signal settings_signal_;
  Http2Keepalive keepalive_;
  Task<void> running_;
};

Task<void> Http2Link::serve_connection() {
  co_await session_.run({});
  draining_ = true;
  settings_signal_.raise();
  for (Node* node = streams_.next; node != &streams_; node = node->next) {
    auto& stream = static_cast<Http2ClientStream&>(*node);
    if (!stream.in().ended()) {
      stream.fail_with(stream.connection_lost(served_, keepalive_.failed()));
    }
    session_.detach(stream);
  }
  notify_pool();
}

bool Http2Link::ended_in_order() const {
  const auto code = session_.peer().goaway;
  return code && (*code == NGHTTP2_NO_ERROR || *code == NGHTTP2_ENHANCE_YOUR_CALM) &&
         session_.ended() && session_.ending().by_peer;
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
  const bool usable = settings_received_ && !session_.ended() && !draining_ && !resets_.exceeded();
  if (!usable || session_.peer().ping_unanswered ||
      session_.window_closed_for() >= max_closed_window) {
    return 0;
  }
  const std::uint32_t limit = std::min(max_streams, session_.streams_allowed());
  const std::uint32_t open = session_.open_streams();
  return limit > open ? limit - open : 0;
}

/// True if the head is larger than the backend's SETTINGS allow: some servers end the connection
/// for such a request, and with it all others on it.
bool Http2Link::exceeds_header_limit(const Request& request) {
  constexpr std::size_t per_field = 32;  // RFC 9113, section 6.5.2
  constexpr std::size_t own =
      6 * per_field + 7 + 7 + 10 + 5 + 5 + 2 + 8 + 14 + 20;  // pseudo-fields
  const std::size_t limit = setting(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE);
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
  Task<Result<Chunk>> first;
  if (Body* const body = body_to_send(request)) {
    first = body->read();
    if (first.ready()) {
      auto chunk = first.take();
      if (!chunk) co_return std::move(chunk.error());  // nothing was sent: the link stays usable
      first = Task<Result<Chunk>>(*chunk);
    }
  }
  // A backend may take an upgrade as extended CONNECT (RFC 8441).
  const bool tunnel = !request.upgrade.empty() && request.body != nullptr &&
                      setting(NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 1;
  auto stream = std::make_unique<Http2ClientStream>(
      Http2ClientStream::LinkParts{session_, options_, silence_, resets_, streams_}, request,
      tunnel);
  stream->submit(std::move(first));
  keepalive_.on_request(loop().now());

  while (!stream->answered()) {
    if (stream->failure()) co_return Error(*stream->failure());
    if (auto failure = stream->take_upload_failure()) co_return std::move(*failure);
    auto wake = co_await stream->arrival(stream->exchange().head_deadline());
    if (wake == Wake::expired && !stream->answered()) co_return late_head();
  }
  served_ = true;
  co_return Http2ClientStream::take_response(std::move(stream));
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
    static_cast<Http2ClientStream&>(*node).wake_reader();
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
