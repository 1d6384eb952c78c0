// The client side of HTTP/1.1 and 1.0: connections, request heads, refusals.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "evenkeel/http/status.h"
#include "evenkeel/wire/frontend.h"
#include "http1_connection.h"
#include "http2_frontend.h"
#include "linger.h"
#include "refusal.h"
#include "yield_counter.h"

namespace evenkeel {
namespace {

/// True if the bytes are CR, or CRLF. REQUIRES: not empty.
bool is_part_of_empty_line(std::string_view bytes) {
  return bytes.front() == '\r' && (bytes.size() == 1 || bytes == "\r\n");
}

}  // namespace

Task<void> Http1Connection::serve(std::unique_ptr<Http1Connection> self, bool detects_http2) {
  Http1Connection& c = *self;
  YieldCounter exchanges;
  Instant since = c.loop().now();  // when the connection became idle, or the request began
  while (true) {
    const Arrival arrival = c.receive();
    if (arrival == Arrival::end) break;
    if (arrival == Arrival::nothing) {
      exchanges.waited();
      if (c.served_ && c.callbacks_.closes_idle()) break;
      // A new connection may still send its first request in a drain, but soon.
      const bool first_request_pending = !c.served_ && c.callbacks_.closes_idle();
      const Duration timeout = first_request_pending ? head_drain_timeout
                               : c.served_           ? c.config_.timeouts.idle
                                                     : c.config_.timeouts.header;
      c.callbacks_.idle_connections(c.client_.number()).add(c.idle_, since);
      auto wake = co_await c.watch().until_readable(since + timeout);
      c.idle_.leave();
      if (wake == Wake::interrupted && !first_request_pending && !c.served_ &&
          c.callbacks_.closes_idle()) {
        since = c.loop().now();
      } else if (wake != Wake::ready) {
        break;
      }
      continue;
    }
    if (exchanges.is_due()) co_await c.loop().yield();
    since = c.loop().now();
    c.served_ = true;
    if (detects_http2) {
      detects_http2 = false;
      const auto http2 = co_await c.detect_http2(since);
      if (!http2) break;
      if (*http2) {
        auto connection = c.continue_as_http2();
        self.reset();
        co_await connection;
        co_return;
      }
    }
    auto next = co_await c.exchange(since);
    if (next == Next::close) break;
    if (next == Next::linger) {
      co_await c.linger();
      break;
    }
    since = c.loop().now();
  }
}

/// Reads what has come, if no request has begun yet. That the socket may have more to read does not
/// mean that it has, and an empty line before a request is no part of it (RFC 9112, section 2.2).
Http1Connection::Arrival Http1Connection::receive() {
  ReadBuffer& in = transport_.in;
  while (true) {
    if (in.empty()) {
      if (in.block) in.release();  // an idle connection holds no buffer
    } else if (!is_part_of_empty_line(in.bytes()) || in.free_size() == 0) {
      return Arrival::request;  // the parser makes room
    }
    if (!watch().readable()) return Arrival::nothing;
    if (!in.block) in.block = Block::take(Block::small);
    const auto got = transport_.fill();
    if (got == Socket::ReadStatus::end || got == Socket::ReadStatus::failure) return Arrival::end;
  }
}

/// Continues as HTTP/2. Not part of `serve`, which would make every connection's frame larger.
Task<void> Http1Connection::continue_as_http2() {
  return Http2Frontend::serve(
      std::make_unique<Http2Frontend>(std::move(transport_.socket), client_, config_, callbacks_),
      std::exchange(transport_.in, {}));
}

/// Reads until the first bytes show the protocol. True: HTTP/2; empty: timeout. The bytes stay in
/// `transport_.in`.
Task<std::optional<bool>> Http1Connection::detect_http2(Instant started) {
  constexpr std::string_view preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  Instant deadline = started + config_.timeouts.header;
  while (true) {
    const std::string_view begun = transport_.in.bytes().substr(0, preface.size());
    if (!preface.starts_with(begun)) co_return false;
    if (begun.size() == preface.size()) co_return true;
    if (!watch().readable()) {
      deadline = limit_in_drain(deadline);
      auto wake = co_await watch().until_readable(deadline);
      idle_.leave();
      if (wake == Wake::expired) co_return std::nullopt;
    }
    const auto got = transport_.fill();
    if (got == Socket::ReadStatus::would_block) continue;
    if (got != Socket::ReadStatus::bytes) co_return false;  // the next read reports it
  }
}

/// The deadline of a wait for the rest of a request head: soon in a drain. If a drain begins later,
/// it interrupts the wait; the caller ends this with `idle_.leave()`.
Instant Http1Connection::limit_in_drain(Instant deadline) {
  if (callbacks_.draining()) return std::min(deadline, loop().now() + head_drain_timeout);
  callbacks_.watch_drain(idle_);
  return deadline;
}

/// Gives a request its body. Null: it has none, or a tunnel.
Http1RequestBody* Http1Connection::add_body(Request& request, const Http1MessageInfo& message) {
  if (!request.upgrade.empty()) {
    request.body = std::make_unique<TunnelBody>(transport_, request.info);
    return nullptr;
  }
  if (message.framing.is_empty()) return nullptr;
  auto made = std::make_unique<Http1RequestBody>(transport_, config_, message, request.info);
  Http1RequestBody* const body = made.get();
  request.body = std::move(made);
  return body;
}

/// Reads one request, whose first bytes came at `started`, and sends its response.
Task<Http1Connection::Next> Http1Connection::exchange(Instant started) {
  Request request{.response_budget = &budget_};
  Http1MessageInfo message;
  {
    HeadParser parser(
        HeadParser::Kind::request,
        {config_.limits.header_bytes, config_.limits.header_fields, config_.limits.uri_bytes});
    auto outcome = co_await read_head(parser, started + config_.timeouts.header);
    minor_version_ = static_cast<std::uint8_t>(parser.head().minor_version);
    identify_connection(request.info.identity, config_, client_, socket().tls(),
                        minor_version_ == 1 ? "HTTP/1.1" : "HTTP/1.0");
    request.info.timings.started = started;
    request.info.timings.head_received = loop().now();
    if (closes_silently(outcome, parser, request.info)) co_return Next::close;
    auto problem = check_head(outcome, parser, request, message);
    if (problem) {
      auto refused = co_await refuse(std::move(*problem), parser.head(), request);
      co_return refused;
    }
  }
  transport_.body_begin = transport_.in.begin;

  Http1RequestBody* const body = add_body(request, message);
  if (minor_version_ == 1) request.interim = this;

  co_await loop().after_events();
  const std::shared_ptr<Handler> plan = callbacks_.plan();
  auto answer = plan->handle(request);
  if (!answer.ready()) {
    co_await UntilDoneOrHangup(answer, watch(), config_.half_close == HalfClose::abort);
    if (!answer.ready()) {
      answer.drop();
      co_return Next::close;
    }
    co_await loop().after_events();
  }
  auto result = answer.take();
  const bool client_failed = !result && result.error().fault == Fault::client_gone;
  if (client_failed) co_return Next::close;
  Response response =
      result ? std::move(*result) : error_response(result.error(), error_format_of(request));
  // A client whose upgrade was refused may already have sent bytes that are not a request.
  const bool keep = message.keep_alive && !callbacks_.draining() && request.upgrade.empty() &&
                    (body == nullptr || body->drainable());
  timed_out_ = request.info.outcome.fault == Fault::body_timeout;
  auto next = co_await respond(request, response, keep);
  response.body.reset();
  if (response.status == 101)
    co_return next;  // the end of the tunnel need not be at a message boundary
  next = co_await after_response(body, next);
  co_return next;
}

std::optional<Http1Connection::HeadOutcome> Http1Connection::parse_buffered(HeadParser& parser) {
  switch (parser.parse(transport_.in)) {
    case HeadParser::Step::done: return HeadOutcome::done;
    case HeadParser::Step::failed: return HeadOutcome::failed;
    case HeadParser::Step::more: return std::nullopt;
  }
  return std::nullopt;
}

Task<Http1Connection::HeadOutcome> Http1Connection::read_head(HeadParser& parser,
                                                              Instant deadline) {
  if (auto outcome = parse_buffered(parser)) return *outcome;
  return read_rest_of_head(parser, deadline);
}

Task<Http1Connection::HeadOutcome> Http1Connection::read_rest_of_head(HeadParser& parser,
                                                                      Instant deadline) {
  while (true) {
    if (transport_.in.free_size() == 0 && !parser.grow_buffer(transport_.in))
      co_return HeadOutcome::failed;
    if (!watch().readable()) {
      deadline = limit_in_drain(deadline);
      auto wake = co_await watch().until_readable(deadline);
      idle_.leave();
      if (wake == Wake::expired) co_return HeadOutcome::expired;
    }
    const auto got = transport_.fill();
    if (got == Socket::ReadStatus::would_block) continue;
    if (got != Socket::ReadStatus::bytes) co_return HeadOutcome::gone;
    auto outcome = parse_buffered(parser);
    if (outcome) co_return *outcome;
  }
}

/// True if the connection is closed without a response: the client left, or does not speak HTTP.
bool Http1Connection::closes_silently(HeadOutcome outcome, HeadParser& parser, RequestInfo& info) {
  if (outcome == HeadOutcome::gone) return true;
  if (outcome != HeadOutcome::failed || !parser.other_protocol()) return false;
  info.outcome.fault = Fault::bad_request;
  callbacks_.refused({Fault::bad_request, 0, "not HTTP", {}, {}, {}, info});
  return true;
}

/// Moves a complete head into `request`, or returns why the request is refused.
std::optional<Error> Http1Connection::check_head(HeadOutcome outcome, HeadParser& parser,
                                                 Request& request, Http1MessageInfo& message) {
  const auto refused = [](Fault fault, std::string detail) {
    return Error{.fault = fault, .side = Side::client, .detail = std::move(detail)};
  };
  if (outcome == HeadOutcome::expired) {
    return refused(Fault::header_timeout,
                   "the request head did not arrive in time (timeouts.header)");
  }
  if (outcome == HeadOutcome::failed) {
    const MessageLimit limit = parser.exceeded_limit();
    return refused(parser.fault(),
                   limit == MessageLimit::none ? parser.detail() : describe_limit(limit, config_));
  }
  if (auto problem = accept_request(parser.head(), request, message)) {
    return refused(problem->fault, problem->detail);
  }
  if (message.framing.length > config_.limits.body_bytes) {
    return refused(Fault::body_too_large, describe_limit(MessageLimit::body, config_));
  }
  return std::nullopt;
}

/// Answers a request that does not reach a handler and ends the connection, since the position of
/// the next message is unknown.
Task<Http1Connection::Next> Http1Connection::refuse(Error error, const Head& head,
                                                    Request& request) {
  timed_out_ = error.fault == Fault::header_timeout;
  RequestInfo& info = request.info;
  const std::string_view path = path_of_target(head.target);
  const Fields& fields = request.fields.size() > 0 ? request.fields : head.fields;
  const std::string_view host =
      request.authority.empty() ? fields.value(FieldId::host).value_or("") : request.authority;
  Response response = refusal_response(error, error_format_of(path), fields, info);
  const RefusalReport report(callbacks_, error, head.method, host, path, info);
  auto chunk = co_await response.body->read();
  HeadWriter& out = begin_head();
  write_response_head(out, response, {Framing::Kind::length, chunk->bytes.size()}, true, 1);
  auto written = co_await socket().write(out.written(), chunk->bytes, {}, config_.timeouts.write);
  if (written) info.outcome.bytes_out = chunk->bytes.size();
  co_return written ? Next::linger : Next::close;
}

/// Prepares the connection for the next request or for its close. A close with unread input would
/// reset the connection, and the client could lose the response.
Task<Http1Connection::Next> Http1Connection::after_response(Http1RequestBody* body, Next next) {
  if (next == Next::close) return next;
  const bool finished = body == nullptr || body->finished();
  if (next == Next::linger) {
    const bool unread_input =
        !finished || !transport_.in.empty() || transport_.carried_over.block || watch().readable();
    return unread_input ? Next::linger : Next::close;
  }
  if (!finished) return drain(*body);
  if (transport_.carried_over.block) transport_.in = std::exchange(transport_.carried_over, {});
  return Next::keep;
}

/// Discards the rest of a request body after an early response, up to a limit, to keep the
/// connection. In a drain of the process the connection closes, and `linger` discards.
Task<Http1Connection::Next> Http1Connection::drain(Http1RequestBody& body) {
  if (!body.drainable() || (!body.finished() && callbacks_.draining())) co_return Next::linger;
  body.discard_until(loop().now() + config_.timeouts.linger);
  callbacks_.watch_drain(idle_);
  std::uint64_t drained = 0;
  YieldCounter steps;
  while (!body.finished()) {
    auto pending = body.read();
    if (!pending.ready()) {
      steps.waited();
      co_await UntilDoneOrHangup(pending, watch(), true);
    } else if (steps.is_due()) {
      co_await loop().yield();
    }
    if (!pending.ready()) co_return Next::close;
    auto chunk = pending.take();
    if (!chunk) co_return Next::linger;
    drained += chunk->bytes.size();
    if (drained > config_.limits.linger_bytes) co_return Next::linger;
  }
  idle_.leave();
  if (transport_.carried_over.block) transport_.in = std::exchange(transport_.carried_over, {});
  co_return Next::keep;
}

/// Ends sending, then discards input until the client closes, so that the last response arrives:
/// the kernel answers what arrives after a close with a reset, which discards that response.
Task<void> Http1Connection::linger() {
  socket().shutdown_write();
  Linger linger(config_, loop().now(), timed_out_);
  callbacks_.watch_drain(idle_);
  if (!transport_.in.block) transport_.in.block = Block::take(Block::small);
  YieldCounter steps;
  while (!linger.is_over(loop().now())) {
    const Instant deadline = linger.deadline(loop().now(), callbacks_.draining());
    if (!watch().readable()) {
      steps.waited();
      auto wake = co_await watch().until_readable(deadline);
      if (wake == Wake::expired) break;
    } else if (steps.is_due()) {
      co_await loop().yield();
    }
    const auto got = socket().read_some(transport_.in.block.data(), transport_.in.block.size());
    if (got.status == Socket::ReadStatus::would_block) continue;
    if (got.status != Socket::ReadStatus::bytes) break;
    linger.discarded(got.size);
  }
}

Task<void> serve_http1(std::unique_ptr<Socket> socket, Endpoint peer, const ListenerConfig& config,
                       FrontendCallbacks& callbacks) {
  return Http1Connection::serve(
      std::make_unique<Http1Connection>(std::move(socket), ClientAddress(peer), config, callbacks),
      false);
}

Task<void> serve_http(std::unique_ptr<Socket> socket, Endpoint peer, const ListenerConfig& config,
                      FrontendCallbacks& callbacks, ClientNumber client) {
  const ClientAddress address(peer, client);
  if (socket->tls() != nullptr && socket->tls()->alpn == "h2") {
    return Http2Frontend::serve(
        std::make_unique<Http2Frontend>(std::move(socket), address, config, callbacks), {});
  }
  return Http1Connection::serve(
      std::make_unique<Http1Connection>(std::move(socket), address, config, callbacks), true);
}

}  // namespace evenkeel
