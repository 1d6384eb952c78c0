// The client side of HTTP/2: connections, their deadlines and their end.
#include "http2_frontend.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "refusal.h"

namespace evenkeel {
namespace {

constexpr Duration settings_timeout = std::chrono::seconds(10);
constexpr Duration goaway_timeout = std::chrono::seconds(1);  // for the response to our ping

Http2Settings settings_of(const ListenerConfig& config) {
  return {.side = Http2Guard::Side::server,
          .streams = config.limits.max_streams,
          .header_bytes = config.limits.header_bytes,
          .header_fields = config.limits.header_fields,
          .write_timeout = config.timeouts.write};
}

}  // namespace

Http2Frontend::Http2Frontend(std::unique_ptr<Socket> socket, const ClientAddress& client,
                             const ListenerConfig& config, FrontendCallbacks& callbacks)
    : config_(config),
      callbacks_(callbacks),
      client_(client),
      budget_(config.limits.response_buffer_bytes),
      session_(std::move(socket), settings_of(config), *this),
      tls_(session_.socket().tls()),
      opened_(loop().now()) {
  session_.socket().limit_unsent(max_unsent_bytes);
}

Http2Frontend::~Http2Frontend() {
  if (!session_.ended()) {  // dropped with the loop
    drop_streams();
    session_.fail(NGHTTP2_NO_ERROR, "the server is stopping");
  }
  callbacks_.closed(config_, client_.number());
}

/// Ends the requests in progress; the client gets no more of their responses.
void Http2Frontend::drop_streams() {
  for (Node* list : {&streams_, &retired_}) {
    while (list->linked()) {
      auto& stream = static_cast<Http2ServerStream&>(*list->next);
      stream.request_.info.outcome.bytes_out = stream.sent();
      if (!stream.end_sent() && session_.ended())
        stream.request_.info.outcome.fault = Fault::client_gone;
      delete &stream;
    }
  }
}

Task<void> Http2Frontend::serve(std::unique_ptr<Http2Frontend> self, ReadBuffer received) {
  Http2Frontend& c = *self;
  c.session_.open();
  c.become_idle();
  c.callbacks_.watch_drain(c.drain_);
  if (c.callbacks_.draining()) c.begin_drain();
  co_await c.session_.run(std::move(received));
  c.idle_.leave();
  c.idle_timer_.disarm();
  c.drain_.leave();
  c.drop_streams();
  co_await c.session_.linger();
}

/// The last request has ended.
void Http2Frontend::become_idle() {
  callbacks_.idle_connections(client_.number()).add(idle_, loop().now());
  idle_timer_.arm(loop(), loop().now() + config_.timeouts.idle);
}

void Http2Frontend::begin_request(RequestInfo& info) const {
  identify_connection(info.identity, config_, client_, tls_, "HTTP/2");
  info.timings.started = headers_started_at_;
}

Http2Stream* Http2Frontend::accept_stream() {
  auto* stream = new Http2ServerStream(*this);
  stream->insert_before(streams_);
  if (active_++ == 0) {
    idle_.leave();
    idle_timer_.disarm();
  }
  headers_started_at_ = loop().now();
  section_ = stream;
  return stream;
}

void Http2ServerStream::headers_complete(bool last) { owner_.headers_complete(*this, last); }

void Http2Frontend::headers_complete(Http2ServerStream& stream, bool last) {
  section_ = nullptr;
  if (stream.head_done_) {
    if (refuse_trailers(stream)) return;  // the message must not look complete
  } else {
    stream.head_done_ = true;
    begin_request(stream.request_.info);
    begun_.push_back(&stream);
  }
  if (last) stream.mark_remote_end();
}

/// Resets a stream whose trailers are too large, or which is a tunnel: only DATA belongs in one
/// (RFC 9113, section 8.5). Otherwise false.
bool Http2Frontend::refuse_trailers(Http2ServerStream& stream) {
  if (stream.end_sent()) return false;  // discarded with the rest of the request
  const bool over_limits = stream.over_limits();
  if (over_limits && !stream.begun_) return false;  // it will be answered with 431
  if (!over_limits && !stream.request_.is_extended_connect) return false;
  session_.reset_invalid(stream, over_limits ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR);
  stream.request_.info.outcome.fault = over_limits ? Fault::header_too_large : Fault::bad_request;
  if (!stream.begun_) report_refused(stream, Fault::bad_request, "malformed request");
  retire(stream);
  return true;
}

/// Starts the requests whose heads are complete.
void Http2Frontend::input_processed() {
  for (std::size_t i = 0; i < begun_.size(); ++i) {
    Http2ServerStream& stream = *begun_[i];
    if (stream.retired_ || stream.begun_) continue;
    stream.begun_ = true;
    stream.task_ = exchange(stream);
  }
  begun_.clear();
}

void Http2ServerStream::closed(std::uint32_t code, bool by_peer) {
  owner_.stream_closed(*this, code, by_peer);
}

void Http2Frontend::stream_closed(Http2ServerStream& stream, std::uint32_t code, bool by_peer) {
  if (section_ == &stream) section_ = nullptr;
  if (!stream.head_done_ && stream.over_limits()) {
    report_refused(stream, Fault::header_too_large,
                   describe_limit(stream.exceeded_limit(), config_));
  } else if (!stream.head_done_ || (!stream.begun_ && !stream.retired_)) {
    report_refused(stream, by_peer ? Fault::client_gone : Fault::bad_request,
                   by_peer ? "the client reset the stream" : "malformed request");
  }
  if ((by_peer || code != NGHTTP2_NO_ERROR) && !stream.end_sent()) {
    stream.request_.info.outcome.fault =
        stream.over_limits() ? Fault::header_too_large : Fault::client_gone;
    stream.fail_with({.fault = Fault::client_gone,
                      .side = Side::client,
                      .detail = "the client reset the stream"});
  }
  retire(stream);
}

/// Reports a request that ends before it has begun, without a response.
void Http2Frontend::report_refused(Http2ServerStream& stream, Fault fault,
                                   std::string_view detail) {
  Request& request = stream.request_;
  if (stream.head_done_) {
    stream.head_.finish(request);  // finds the host
  } else {
    begin_request(request.info);
  }
  request.info.outcome.fault = fault;
  callbacks_.refused(
      {fault, 0, detail, request.method, request.authority, request.path, request.info});
}

/// Reports that the connection ends for what no request has done.
void Http2Frontend::report_flood(std::string_view detail) {
  RequestInfo info;
  begin_request(info);
  info.timings.started = loop().now();
  info.outcome.fault = Fault::flood;
  callbacks_.refused({Fault::flood, 0, detail, {}, {}, {}, info});
}

/// Destroys a stream and its request in the loop's next step, when nothing of it runs; that also
/// cancels the request at its backend.
void Http2Frontend::retire(Http2ServerStream& stream) {
  if (stream.retired_) return;
  stream.retired_ = true;
  if (!stream.begun_) std::erase(begun_, &stream);  // its start and end were read together
  stream.request_.info.outcome.bytes_out = stream.sent();
  stream.unlink();
  stream.insert_before(retired_);
  loop().wake_soon(retired_waiter_);
  if (--active_ > 0) return;
  become_idle();
  if (final_goaway_sent_) session_.want_flush();  // which ends the session
}

void Http2Frontend::destroy_retired() {
  while (retired_.linked()) delete static_cast<Http2ServerStream*>(retired_.next);
}

// ---- the end ----------------------------------------------------------------------------------

/// Sends the first of two GOAWAYs: the client should open no streams; those under way are served.
void Http2Frontend::begin_drain() {
  if (draining_ || session_.ended()) return;
  draining_ = true;
  draining_since_ = loop().now();
  nghttp2_submit_shutdown_notice(session_.nghttp2());
  session_.ping(Http2Session::Ping::ping);
  for (Node* node = streams_.next; node != &streams_; node = node->next)
    static_cast<Http2ServerStream*>(node)->arrived();  // ends what lingers sooner
  watch().interrupt();
}

void Http2Frontend::on_event(Http2Event event) {
  switch (event) {
    case Http2Event::settings_received: settings_received_ = true; break;
    case Http2Event::ping_answered:
      if (draining_ && !final_goaway_sent_) send_final_goaway();
      break;
    case Http2Event::violation: report_flood(session_.ending().violation->detail); break;
    case Http2Event::goaway_received: break;
  }
}

/// Sends the second GOAWAY, with the last stream that is served.
void Http2Frontend::send_final_goaway() {
  final_goaway_sent_ = true;
  session_.submit_final_goaway();
}

std::optional<Instant> Http2Frontend::check_deadlines() {
  if (std::exchange(close_if_idle_, false) && active_ == 0) {
    nghttp2_session_terminate_session(session_.nghttp2(), NGHTTP2_NO_ERROR);
    return std::nullopt;
  }
  Instant earliest = never;
  const auto passed = [&](Instant deadline) {
    if (deadline <= loop().now()) return true;
    earliest = std::min(earliest, deadline);
    return false;
  };
  if (!settings_received_ && passed(head_deadline(opened_))) return std::nullopt;
  if (!session_.peer().settings_acknowledged && passed(opened_ + settings_timeout)) {
    report_flood("SETTINGS were not acknowledged in time");
    nghttp2_session_terminate_session(session_.nghttp2(), NGHTTP2_SETTINGS_TIMEOUT);
    return std::nullopt;
  }
  if (section_ != nullptr && passed(head_deadline(headers_started_at_))) {
    report_refused(static_cast<Http2ServerStream&>(*section_), Fault::header_timeout,
                   "the request head did not arrive in time (timeouts.header)");
    nghttp2_session_terminate_session(session_.nghttp2(), NGHTTP2_PROTOCOL_ERROR);
    return std::nullopt;
  }
  if (draining_ && !final_goaway_sent_ && passed(draining_since_ + goaway_timeout)) {
    send_final_goaway();
  }
  return earliest;
}

/// The deadline of a preface or request head that began to arrive at `begun`.
Instant Http2Frontend::head_deadline(Instant begun) const {
  const Instant deadline = begun + config_.timeouts.header;
  if (!draining_) return deadline;
  return std::min(deadline, std::max(begun, draining_since_) + head_drain_timeout);
}

}  // namespace evenkeel
