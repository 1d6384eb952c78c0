// The client's side of HTTP/1.1 and 1.0.
#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "chunked.h"
#include "client_address.h"
#include "evenkeel/http/status.h"
#include "evenkeel/wire/frontend.h"
#include "head_parser.h"
#include "http1_message.h"
#include "http2_frontend.h"

namespace evenkeel {
namespace {

constexpr std::uint64_t max_drained_bytes = 64 * 1024;  // of a request that was answered early
constexpr Duration max_drain_time = std::chrono::seconds(1);
constexpr std::uint32_t min_free_bytes = 4 * 1024;  // in the head's block, to read a body there
constexpr int max_unsent_bytes = 128 * 1024;        // in the kernel, for a slow reader
constexpr int chunks_between_yields = 16;           // of a body that never makes us wait
/// For the first byte of who was let in just before the drain.
constexpr Duration first_request_drain_timeout = std::chrono::seconds(1);
constexpr int exchanges_between_yields = 16;  // of a client that never makes us wait
constexpr std::string_view crlf = "\r\n";

class Http1Connection;

/// A request body, read from the connection as it is pulled.
class RequestBody final : public Body {
 public:
  RequestBody(Http1Connection& connection, const Framing& framing, bool expects_continue,
              RequestInfo& info)
      : connection_(connection),
        info_(info),
        chunked_(framing.kind == Framing::Kind::chunked),
        awaits_continue_(expects_continue),
        left_(framing.length),
        length_(framing.length) {}

  Task<Result<Chunk>> read() override;
  std::optional<std::uint64_t> length() const override {
    return chunked_ ? std::nullopt : std::optional(length_);
  }
  bool rewind() override;

  /// Every byte of the message was read: the next one begins here.
  bool finished() const { return finished_; }
  /// The rest cannot be told from the next message.
  bool broken() const { return broken_; }
  /// What is missing can be read off, as far as it is known, so that the connection lives on after
  /// an early answer. A client that waits for 100 (Continue) may send its body, or not.
  bool drainable() const {
    return finished_ || (!broken_ && !awaits_continue_ && (chunked_ || left_ <= max_drained_bytes));
  }
  /// From now on no read waits beyond this.
  void set_deadline(Instant deadline) { deadline_ = deadline; }

 private:
  std::optional<Result<Chunk>> take_buffered();
  Task<Result<Chunk>> read_more();
  Socket::Read fill();
  std::optional<Result<Chunk>> deliver(char* bytes, std::size_t size, std::uint32_t& begin);
  Result<Chunk> fail(Fault fault, const char* detail);

  Http1Connection& connection_;
  RequestInfo& info_;
  bool chunked_;
  bool awaits_continue_;
  bool finished_ = false;
  bool broken_ = false;
  bool replays_ = false;
  std::uint32_t reads_ = 0;
  std::uint64_t left_;
  std::uint64_t length_;
  std::uint64_t total_ = 0;
  Instant deadline_ = never;
  Chunk first_;       // for `rewind`, when it was the whole body
  ReadBuffer large_;  // once the body has outgrown the head's block
  ChunkedDecoder decoder_;
};

/// What a client sends after its upgrade: bytes without framing, until it ends its sending.
class TunnelBody final : public Body {
 public:
  TunnelBody(Http1Connection& connection, RequestInfo& info)
      : connection_(connection), info_(info) {}
  Task<Result<Chunk>> read() override;
  bool rewind() override { return !begun_; }

 private:
  Http1Connection& connection_;
  RequestInfo& info_;
  bool begun_ = false;
  ReadBuffer buffer_;
};

class Http1Connection final : public Pooled, public InterimHandler {
 public:
  Http1Connection(std::unique_ptr<Socket> socket, const Endpoint& peer,
                  const FrontendOptions& options, FrontendCallbacks& callbacks)
      : socket_(std::move(socket)),
        options_(options),
        callbacks_(callbacks),
        client_(peer, options) {
    socket_->limit_unsent(max_unsent_bytes);
  }
  ~Http1Connection() override {
    if (socket_ != nullptr) callbacks_.closed(options_);
  }

  /// `detects`: the connection may turn out to be one of HTTP/2.
  static Task<void> serve(std::unique_ptr<Http1Connection> self, bool detects_http2);

  void interim(int status, const Fields& fields) override;

 private:
  friend class RequestBody;
  friend class TunnelBody;
  enum class HeadOutcome : std::uint8_t { done, failed, gone, expired };
  /// What comes after a response: another request; the orderly end; the end at once, because the
  /// response broke off or nobody is there to read it.
  enum class Next : std::uint8_t { keep, linger, close };

  Loop& loop() { return socket_->loop(); }
  Watch& watch() { return socket_->watch(); }

  Task<Next> exchange();
  Task<void> continue_as_http2();
  Task<std::optional<bool>> detect_http2();
  Task<HeadOutcome> read_head(HeadParser& parser, Instant deadline);
  std::optional<HeadOutcome> parse_buffered(HeadParser& parser);
  Task<HeadOutcome> read_rest_of_head(HeadParser& parser, Instant deadline);
  Task<Next> refuse(Fault fault, const char* detail, const Head& head, RequestInfo& info);
  Task<Next> respond(Request& request, Response& response, bool keep_alive);
  Task<Next> pump(Request& request, Response& response, Framing framing, bool close);
  Task<Next> write_head_only(RequestInfo& info, Response& response, Framing framing, bool close);
  Next abort(RequestInfo& info, const Error& error, const Framing& framing);
  Task<Next> after_response(RequestBody* body, Next next);
  Task<Next> drain(RequestBody& body);
  HeadWriter& begin_head();
  void write_interim(std::string_view interim);
  Task<void> linger();
  RequestInfo make_request_info(Instant started);

  void interrupt_wait() { watch().interrupt(); }

  std::unique_ptr<Socket> socket_;
  const FrontendOptions& options_;
  FrontendCallbacks& callbacks_;
  ReadBuffer in_;
  ReadBuffer carried_over_;       // what a body's reading took of the next message
  std::uint32_t body_begin_ = 0;  // in in_, behind the current head
  std::uint8_t minor_version_ = 1;
  bool served_ = false;
  ClientAddress client_;
  std::string unsent_;  // of an interim response that the kernel took in part
  MethodWaiter<&Http1Connection::interrupt_wait> idle_{*this};  // among the idle connections
};

// ---- request bodies ---------------------------------------------------------------------------

Result<Chunk> RequestBody::fail(Fault fault, const char* detail) {
  broken_ = true;
  return Error{.fault = fault, .side = Side::client, .detail = detail};
}

/// Makes a chunk of bytes that were read; nothing when they hold no payload yet.
std::optional<Result<Chunk>> RequestBody::deliver(char* bytes, std::size_t size,
                                                  std::uint32_t& begin) {
  Chunk chunk;
  if (chunked_) {
    const auto decoded = decoder_.decode(bytes, size);
    begin += static_cast<std::uint32_t>(decoded.consumed);
    if (decoded.step == ChunkedDecoder::Step::failed) {
      return fail(Fault::bad_request, decoder_.detail());
    }
    chunk.bytes = decoded.payload;
    chunk.last = decoded.step == ChunkedDecoder::Step::done;
    if (chunk.last && decoder_.trailers().size() > 0) chunk.trailers = &decoder_.trailers();
    total_ += chunk.bytes.size();
    if (!info_.identity.is_streaming && total_ > connection_.options_.body_bytes) {
      return fail(Fault::body_too_large, "the request body is too large");
    }
    if (chunk.bytes.empty() && !chunk.last) return std::nullopt;
  } else {
    const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(left_, size));
    chunk.bytes = {bytes, taken};
    begin += static_cast<std::uint32_t>(taken);
    left_ -= taken;
    chunk.last = left_ == 0;
  }
  info_.outcome.bytes_in += chunk.bytes.size();
  finished_ = chunk.last;
  awaits_continue_ = false;
  if (++reads_ == 1 && chunk.last && chunk.trailers == nullptr) first_ = chunk;
  return chunk;
}

std::optional<Result<Chunk>> RequestBody::take_buffered() {
  ReadBuffer& in = connection_.in_;
  if (in.empty()) return std::nullopt;
  return deliver(in.block.data() + in.begin, in.end - in.begin, in.begin);
}

Task<Result<Chunk>> RequestBody::read() {
  if (replays_) {
    replays_ = false;
    return Result<Chunk>(first_);
  }
  if (auto chunk = take_buffered()) return std::move(*chunk);
  return read_more();
}

bool RequestBody::rewind() {
  if (reads_ == 0) return !broken_;
  replays_ = reads_ == 1 && first_.last;
  return replays_;
}

/// Reads once: into the head's block while the body is small, into a large one after that.
Socket::Read RequestBody::fill() {
  Http1Connection& c = connection_;
  const bool fits = !chunked_ && left_ <= c.in_.block.size() - c.body_begin_;
  const bool streams_in = chunked_ && c.in_.block.size() - c.body_begin_ >= min_free_bytes;
  if (!large_.block && (fits || streams_in)) {
    c.in_.begin = c.in_.end = c.body_begin_;  // what was here has been taken
    const std::size_t room = c.in_.free_size();
    const auto got = c.socket_->read_some(
        c.in_.free_begin(),
        chunked_ ? room : static_cast<std::size_t>(std::min<std::uint64_t>(left_, room)));
    c.in_.end += static_cast<std::uint32_t>(got.size);
    if (got.size == room) large_.block = Block::take(Block::large);
    return got;
  }
  if (!large_.block) large_.block = Block::take(Block::large);
  large_.begin = large_.end = 0;
  const std::size_t room = large_.block.size();
  const auto got = c.socket_->read_some(
      large_.block.data(),
      chunked_ ? room : static_cast<std::size_t>(std::min<std::uint64_t>(left_, room)));
  large_.end = static_cast<std::uint32_t>(got.size);
  return got;
}

Task<Result<Chunk>> RequestBody::read_more() {
  Http1Connection& c = connection_;
  if (std::exchange(awaits_continue_, false)) c.write_interim("HTTP/1.1 100 Continue\r\n\r\n");
  while (true) {
    if (!c.watch().readable()) {
      const Instant stalled =
          info_.identity.is_streaming ? never : c.loop().now() + c.options_.body_timeout;
      const Instant deadline = std::min(deadline_, stalled);
      auto wake = co_await c.watch().until_readable(deadline);
      if (wake == Wake::interrupted) continue;
      if (wake == Wake::expired) co_return fail(Fault::body_timeout, "the request body stalls");
    }
    const auto got = fill();
    if (got.got == Socket::ReadStatus::would_block) continue;
    if (got.got != Socket::ReadStatus::bytes) {
      co_return fail(Fault::client_gone, "the client left in the middle of its request");
    }
    if (large_.empty()) {
      if (auto chunk = take_buffered()) co_return std::move(*chunk);
    } else {
      auto chunk = deliver(large_.block.data(), large_.end, large_.begin);
      const bool over_read = finished_ && !large_.empty();
      if (over_read) c.carried_over_ = {std::move(large_.block), large_.begin, large_.end};
      large_.begin = large_.end = 0;
      if (chunk) co_return std::move(*chunk);
    }
  }
}

Task<Result<Chunk>> TunnelBody::read() {
  Http1Connection& c = connection_;
  begun_ = true;
  if (!c.in_.empty()) {
    const std::string_view bytes = c.in_.bytes();
    c.in_.begin = c.in_.end;
    info_.outcome.bytes_in += bytes.size();
    co_return Chunk{.bytes = bytes};
  }
  if (!buffer_.block) buffer_.block = Block::take(Block::small);
  while (true) {
    if (!c.watch().readable()) {
      auto wake = co_await c.watch().until_readable();
      if (wake == Wake::interrupted) continue;
    }
    const auto got = c.socket_->read_some(buffer_.block.data(), buffer_.block.size());
    if (got.got == Socket::ReadStatus::would_block) continue;
    if (got.got == Socket::ReadStatus::end) co_return Chunk{.last = true};
    if (got.got == Socket::ReadStatus::failure) {
      co_return Error{
          .fault = Fault::client_gone, .side = Side::client, .detail = "the client left"};
    }
    info_.outcome.bytes_in += got.size;
    co_return Chunk{.bytes = {buffer_.block.data(), got.size}};
  }
}

// ---- the connection ---------------------------------------------------------------------------

Task<void> Http1Connection::serve(std::unique_ptr<Http1Connection> self, bool detects_http2) {
  Http1Connection& c = *self;
  int without_waiting = 0;
  while (true) {
    if (c.in_.empty()) c.in_.release();  // an idle connection pins no buffer
    if (c.in_.empty() && !c.watch().readable()) {
      without_waiting = 0;
      if (c.served_ && c.callbacks_.draining()) break;
      // A connection that has not said anything yet owes its first head; in a drain, soon.
      const bool first_request_pending = !c.served_ && c.callbacks_.draining();
      const Duration timeout = first_request_pending ? first_request_drain_timeout
                               : c.served_           ? c.options_.idle_timeout
                                                     : c.options_.header_timeout;
      c.callbacks_.idle_connections().add(c.idle_);
      auto wake = co_await c.watch().until_readable(c.loop().now() + timeout);
      c.idle_.leave();
      if (wake == Wake::interrupted && !first_request_pending && !c.served_ &&
          c.callbacks_.draining())
        continue;
      if (wake != Wake::ready) break;
    } else if (++without_waiting == exchanges_between_yields) {
      without_waiting = 0;
      co_await c.loop().yield();
    }
    c.served_ = true;
    if (detects_http2) {
      detects_http2 = false;
      const auto http2 = co_await c.detect_http2();
      if (!http2) break;
      if (*http2) {
        auto connection = c.continue_as_http2();
        self.reset();
        co_await connection;
        co_return;
      }
    }
    auto next = co_await c.exchange();
    if (next == Next::close) break;
    if (next == Next::linger) {
      co_await c.linger();
      break;
    }
  }
}

/// The connection goes on as one of HTTP/2. Not in `serve`, whose frame is every connection's.
Task<void> Http1Connection::continue_as_http2() {
  return serve_http2(std::move(socket_), client_, options_, callbacks_, std::exchange(in_, {}));
}

/// Reads until the first bytes tell; nothing if that takes too long. They stay in `in_`.
Task<std::optional<bool>> Http1Connection::detect_http2() {
  constexpr std::string_view preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const Instant deadline = loop().now() + options_.header_timeout;
  in_.block = Block::take(Block::small);
  while (true) {
    if (!watch().readable()) {
      auto wake = co_await watch().until_readable(deadline);
      if (wake == Wake::expired) co_return std::nullopt;
    }
    const auto got = socket_->read_some(in_.free_begin(), in_.free_size());
    if (got.got == Socket::ReadStatus::would_block) continue;
    if (got.got != Socket::ReadStatus::bytes) co_return false;  // seen again by the next read
    in_.end += static_cast<std::uint32_t>(got.size);
    const std::string_view begun = in_.bytes().substr(0, preface.size());
    if (!preface.starts_with(begun)) co_return false;
    if (begun.size() == preface.size()) co_return true;
  }
}

RequestInfo Http1Connection::make_request_info(Instant started) {
  const TlsConnectionInfo* tls = socket_->tls();
  const bool certified = tls != nullptr && tls->verified;
  return RequestInfo{
      .identity = {.listener = options_.listener,
                   .client = client_.text(),
                   .client_port = client_.port(),
                   .protocol = minor_version_ == 1 ? "HTTP/1.1" : "HTTP/1.0",
                   .trusted = client_.trusted(),
                   .secure = tls != nullptr,
                   .certificate_subject = certified ? tls->certificate_subject : std::string_view(),
                   .certificate_hash = certified ? tls->certificate_hash : std::string_view()},
      .timings = {.started = started}};
}

/// One request and its response.
Task<Http1Connection::Next> Http1Connection::exchange() {
  const Instant started = loop().now();
  Request request;
  Http1MessageInfo message_info;
  {
    HeadParser parser(HeadParser::Kind::request,
                      {options_.header_bytes, options_.header_fields, options_.uri_bytes});
    auto outcome = co_await read_head(parser, started + options_.header_timeout);
    minor_version_ = static_cast<std::uint8_t>(parser.head().minor_version);
    request.info = make_request_info(started);
    if (outcome == HeadOutcome::gone) co_return Next::close;
    if (outcome == HeadOutcome::expired && !parser.started()) co_return Next::close;
    if (outcome == HeadOutcome::failed && parser.other_protocol()) {
      request.info.outcome.fault = Fault::bad_request;
      callbacks_.refused({Fault::bad_request, 0, "not HTTP", {}, {}, request.info});
      co_return Next::close;
    }
    if (outcome != HeadOutcome::done) {
      const bool late = outcome == HeadOutcome::expired;
      auto refused = co_await refuse(late ? Fault::header_timeout : parser.fault(),
                                     late ? "the header section stalls" : parser.detail(),
                                     parser.head(), request.info);
      co_return refused;
    }
    auto problem = accept_request(parser.head(), request, message_info);
    if (!problem && message_info.framing.length > options_.body_bytes) {
      problem = HeadError{Fault::body_too_large, "the request body is too large"};
    }
    if (problem) {
      auto refused = co_await refuse(problem->fault, problem->detail, parser.head(), request.info);
      co_return refused;
    }
  }
  body_begin_ = in_.begin;

  RequestBody* body = nullptr;
  if (!request.upgrade.empty()) {
    request.body = std::make_unique<TunnelBody>(*this, request.info);
  } else if (message_info.framing.kind == Framing::Kind::chunked ||
             (message_info.framing.kind == Framing::Kind::length &&
              message_info.framing.length > 0)) {
    auto made = std::make_unique<RequestBody>(*this, message_info.framing,
                                              message_info.expects_continue, request.info);
    body = made.get();
    request.body = std::move(made);
  }
  if (minor_version_ == 1) request.interim = this;

  request.info.timings.head_received = loop().now();
  co_await loop().after_events();
  const std::shared_ptr<Handler> plan = callbacks_.plan();
  auto answer = plan->handle(request);
  if (!answer.ready()) {
    co_await UntilDoneOrHangup(answer, watch(), options_.abort_on_half_close);
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
  // A client whose upgrade is refused may have sent what was not meant as a request.
  const bool keep = message_info.keep_alive && !callbacks_.draining() && request.upgrade.empty() &&
                    (body == nullptr || body->drainable());
  auto next = co_await respond(request, response, keep);
  response.body.reset();
  if (response.status == 101) co_return next;  // the client may be in the middle of a word
  next = co_await after_response(body, next);
  co_return next;
}

std::optional<Http1Connection::HeadOutcome> Http1Connection::parse_buffered(HeadParser& parser) {
  if (in_.empty()) return std::nullopt;
  switch (parser.parse(in_)) {
    case HeadParser::Step::done: return HeadOutcome::done;
    case HeadParser::Step::failed: return HeadOutcome::failed;
    case HeadParser::Step::more: return std::nullopt;
  }
  return std::nullopt;
}

Task<Http1Connection::HeadOutcome> Http1Connection::read_head(HeadParser& parser,
                                                              Instant deadline) {
  if (!in_.block) in_.block = Block::take(Block::small);
  if (in_.empty() && watch().readable()) {
    const auto got = socket_->read_some(in_.free_begin(), in_.free_size());
    if (got.got == Socket::ReadStatus::end || got.got == Socket::ReadStatus::failure)
      return HeadOutcome::gone;
    in_.end += static_cast<std::uint32_t>(got.size);
  }
  if (auto outcome = parse_buffered(parser)) return *outcome;
  return read_rest_of_head(parser, deadline);
}

Task<Http1Connection::HeadOutcome> Http1Connection::read_rest_of_head(HeadParser& parser,
                                                                      Instant deadline) {
  while (true) {
    if (in_.free_size() == 0 && !parser.grow_buffer(in_)) co_return HeadOutcome::failed;
    if (!watch().readable()) {
      auto wake = co_await watch().until_readable(deadline);
      if (wake == Wake::expired) co_return HeadOutcome::expired;
      if (wake == Wake::interrupted && !parser.started()) co_return HeadOutcome::gone;
    }
    const auto got = socket_->read_some(in_.free_begin(), in_.free_size());
    if (got.got == Socket::ReadStatus::would_block) continue;
    if (got.got != Socket::ReadStatus::bytes) co_return HeadOutcome::gone;
    in_.end += static_cast<std::uint32_t>(got.size);
    auto outcome = parse_buffered(parser);
    if (outcome) co_return *outcome;
  }
}

/// Answers what never became a request, and ends the connection: what follows cannot be trusted.
Task<Http1Connection::Next> Http1Connection::refuse(Fault fault, const char* detail,
                                                    const Head& head, RequestInfo& info) {
  // Of a target in absolute form, the path alone tells the dialect.
  const auto scheme_end = head.target.find("://");
  const auto slash = scheme_end == std::string_view::npos || head.target.starts_with('/')
                         ? 0
                         : head.target.find('/', scheme_end + 3);
  const std::string_view path =
      slash == std::string_view::npos ? head.target : head.target.substr(slash);
  Response response = error_response({.fault = fault, .side = Side::client, .detail = detail},
                                     error_format_of(path));
  info.outcome.status = response.status;
  info.outcome.fault = fault;
  callbacks_.refused({fault, response.status, detail, head.method, path, info});
  auto chunk = co_await response.body->read();
  HeadWriter& out = begin_head();
  write_response_head(out, response, {Framing::Kind::length, chunk->bytes.size()}, true, 1);
  auto written = co_await socket_->write(out.written(), chunk->bytes, {}, options_.write_timeout);
  co_return written ? Next::linger : Next::close;
}

/// A writer for a final head, behind what is left of an interim one.
HeadWriter& Http1Connection::begin_head() {
  HeadWriter& out = HeadWriter::scratch();
  if (!unsent_.empty()) {
    out << unsent_;
    unsent_.clear();
  }
  return out;
}

/// Sends an interim response, which nothing waits for: one that the kernel takes in part is
/// finished before the final one, one that it does not take at all is lost.
void Http1Connection::write_interim(std::string_view interim) {
  if (!unsent_.empty()) return;
  const std::size_t sent = socket_->write_now(interim);
  if (sent > 0) unsent_ = interim.substr(sent);
}

void Http1Connection::interim(int status, const Fields& fields) {
  HeadWriter& out = HeadWriter::scratch();
  out << "HTTP/1.1 " << static_cast<std::uint64_t>(status) << " " << phrase_of(status) << crlf;
  for (const Field& field : fields) out.field(field.name(), field.value());
  out << crlf;
  write_interim(out.written());
}

Task<Http1Connection::Next> Http1Connection::respond(Request& request, Response& response,
                                                     bool keep_alive) {
  const bool bodiless =
      request.method == "HEAD" || response.status == 204 || response.status == 304;
  Framing framing;
  if (response.status == 101) {
    framing.kind = Framing::Kind::until_close;
    keep_alive = false;
  } else if (bodiless) {
    if (response.body && !response.declared_length && response.status != 204) {
      response.declared_length = response.body->length();
    }
  } else {
    const auto length = response.body ? response.body->length() : std::optional<std::uint64_t>(0);
    response.declared_length.reset();
    if (length) {
      framing = {Framing::Kind::length, *length};
    } else if (minor_version_ == 1) {
      framing.kind = Framing::Kind::chunked;
    } else {
      framing.kind = Framing::Kind::until_close;
      keep_alive = false;
    }
  }
  request.info.outcome.status = response.status;
  if (!response.body || bodiless ||
      (framing.kind == Framing::Kind::length && framing.length == 0)) {
    return write_head_only(request.info, response, framing, !keep_alive);
  }
  return pump(request, response, framing, !keep_alive);
}

Task<Http1Connection::Next> Http1Connection::write_head_only(RequestInfo& info, Response& response,
                                                             Framing framing, bool close) {
  HeadWriter& out = begin_head();
  write_response_head(out, response, framing, close, minor_version_);
  auto written = co_await socket_->write(out.written(), {}, {}, options_.write_timeout);
  if (!written) co_return abort(info, written.error(), framing);
  co_return close ? Next::linger : Next::keep;
}

/// The only loop that moves response bytes: pull a chunk, write a chunk, at once.
Task<Http1Connection::Next> Http1Connection::pump(Request& request, Response& response,
                                                  Framing framing, bool close) {
  RequestInfo& info = request.info;
  const bool chunked = framing.kind == Framing::Kind::chunked;
  const bool tunnel = response.status == 101;
  const bool abort_on_half_close = options_.abort_on_half_close && !tunnel;
  bool head_written = false;
  int without_waiting = 0;

  auto next = response.body->read();
  while (true) {
    if (!next.ready()) {
      without_waiting = 0;
      if (!head_written) {
        HeadWriter& out = begin_head();
        write_response_head(out, response, framing, close, minor_version_);
        auto written = co_await socket_->write(out.written(), {}, {}, options_.write_timeout);
        if (!written) co_return abort(info, written.error(), framing);
        head_written = true;
      }
      if (!next.ready()) co_await UntilDoneOrHangup(next, watch(), abort_on_half_close);
      if (!next.ready()) {
        co_return abort(info, {.fault = Fault::client_gone, .side = Side::client}, framing);
      }
      co_await loop().after_events();
    }

    auto result = next.take();
    if (!result) {
      const bool client_left = result.error().fault == Fault::client_gone;
      if (head_written || client_left) co_return abort(info, result.error(), framing);
      Response failure = error_response(result.error(), error_format_of(request));
      if (!info.identity.request_id.empty())
        failure.fields.add("x-request-id", info.identity.request_id);
      info.outcome.fault = result.error().fault;
      auto answered = co_await respond(request, failure, !close);
      co_return answered;
    }
    const Chunk chunk = *result;

    HeadWriter& out = begin_head();
    if (!head_written) write_response_head(out, response, framing, close, minor_version_);
    std::string_view tail;
    std::string storage;
    if (chunked) tail = frame_chunk(out, chunk, storage);
    auto written =
        co_await write_gathered(*socket_, out, chunk.bytes, tail, options_.write_timeout);
    if (!written) co_return abort(info, written.error(), framing);
    head_written = true;
    info.outcome.bytes_out += chunk.bytes.size();
    if (chunk.last) break;
    if (++without_waiting == chunks_between_yields) {
      without_waiting = 0;
      co_await loop().yield();
    }
    next = response.body->read();
  }
  co_return close ? Next::linger : Next::keep;
}

/// Ends a response that cannot be completed so that the client can tell.
Http1Connection::Next Http1Connection::abort(RequestInfo& info, const Error& error,
                                             const Framing& framing) {
  info.outcome.fault = error.fault;
  // Without framing, an orderly end would say "complete".
  if (framing.kind == Framing::Kind::until_close) socket_->reset();
  return Next::close;
}

/// Makes the connection ready for the next request, or for its end: a close while there is
/// something to read would reset it, and take the answer away from a client that has not read it
/// yet.
Task<Http1Connection::Next> Http1Connection::after_response(RequestBody* body, Next next) {
  if (next == Next::close) return next;
  const bool finished = body == nullptr || body->finished();
  if (next == Next::linger) {
    const bool unread_input =
        !finished || !in_.empty() || carried_over_.block || watch().readable();
    return unread_input ? Next::linger : Next::close;
  }
  if (!finished) return drain(*body);
  if (carried_over_.block) in_ = std::exchange(carried_over_, {});
  return Next::keep;
}

/// Reads off what is missing of a request that was answered early.
Task<Http1Connection::Next> Http1Connection::drain(RequestBody& body) {
  if (!body.drainable()) co_return Next::linger;
  body.set_deadline(loop().now() + max_drain_time);
  std::uint64_t drained = 0;
  while (!body.finished()) {
    auto pending = body.read();
    if (!pending.ready()) {
      co_await UntilDoneOrHangup(pending, watch(), true);
    }
    if (!pending.ready()) co_return Next::close;
    auto chunk = pending.take();
    if (!chunk) co_return Next::linger;
    drained += chunk->bytes.size();
    if (drained > max_drained_bytes) co_return Next::linger;
  }
  if (carried_over_.block) in_ = std::exchange(carried_over_, {});
  co_return Next::keep;
}

/// Closes so that the last answer arrives: unread bytes at a close would reset the connection.
Task<void> Http1Connection::linger() {
  socket_->shutdown_write();
  const Instant deadline = loop().now() + max_drain_time;
  if (!in_.block) in_.block = Block::take(Block::small);
  std::uint64_t drained = 0;
  while (drained < 16 * max_drained_bytes) {
    if (!watch().readable()) {
      auto wake = co_await watch().until_readable(deadline);
      if (wake == Wake::expired) break;
    }
    const auto got = socket_->read_some(in_.block.data(), in_.block.size());
    if (got.got == Socket::ReadStatus::would_block) continue;
    if (got.got != Socket::ReadStatus::bytes) break;
    drained += got.size;
  }
}

}  // namespace

Task<void> serve_http1(std::unique_ptr<Socket> socket, Endpoint peer,
                       const FrontendOptions& options, FrontendCallbacks& callbacks) {
  return Http1Connection::serve(
      std::make_unique<Http1Connection>(std::move(socket), peer, options, callbacks), false);
}

Task<void> serve_http(std::unique_ptr<Socket> socket, Endpoint peer, const FrontendOptions& options,
                      FrontendCallbacks& callbacks) {
  if (socket->tls() != nullptr && socket->tls()->alpn == "h2") {
    return serve_http2(std::move(socket), ClientAddress(peer, options), options, callbacks, {});
  }
  return Http1Connection::serve(
      std::make_unique<Http1Connection>(std::move(socket), peer, options, callbacks), true);
}

}  // namespace evenkeel
