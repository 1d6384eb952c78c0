// The backend side of HTTP/1.1: one connection, one exchange at a time.
#include <cstring>
#include <optional>

#include "chunked.h"
#include "evenkeel/net/websocket_key.h"
#include "evenkeel/wire/link.h"
#include "evenkeel/wire/link_body.h"
#include "head_parser.h"
#include "http1_message.h"
#include "response_buffer.h"
#include "silence_limit.h"

namespace evenkeel {
namespace {

/// A backend that closes an idle link may do so while the next request arrives, unread. If the link
/// ends later than this, the backend may have read the request.
constexpr Duration max_idle_close_race = std::chrono::seconds(1);

constexpr int max_interim_responses = 16;
constexpr std::uint32_t min_free_bytes =
    4 * 1024;  // in the block of the head, to read a body there
constexpr int chunks_between_yields = 16;

Error backend_error(Fault fault, const char* detail) {
  return Error{.fault = fault, .side = Side::backend, .detail = detail};
}

/// Turns the error of a failed write into the backend's.
Error attribute_to_backend(Error error) {
  error.side = Side::backend;
  error.fault = error.fault == Fault::write_timeout ? Fault::idle_timeout : Fault::backend_closed;
  return error;
}

/// True if the backend may have lost its place in the stream of requests: its parser, not its API,
/// has refused the request. (llama.cpp answers a large header twice, and reads what follows as the
/// next request.) An API says in JSON what is wrong.
bool may_be_out_of_step(const Response& response) {
  if (response.status != 400 && response.status != 414 && response.status != 431) return false;
  const Field* type = response.fields.find(FieldId::content_type);
  return type == nullptr || !type->value().starts_with("application/json");
}

/// Why a 101 is not the answer to the request; null: it is. A tunnel is beyond routes and limits,
/// so a client's own check of the answer does not do: the client may want the tunnel.
const char* problem_of_upgrade(const Request& request, const Response& response, bool upgrades) {
  if (request.upgrade.empty() || request.body == nullptr) return "unrequested protocol upgrade";
  const auto protocol = response.fields.value(FieldId::upgrade);
  const bool only_one = response.fields.count(FieldId::upgrade) == 1;
  if (!only_one || !equals_ignore_case(*protocol, request.upgrade)) {
    return "the backend switched to another protocol";
  }
  if (!upgrades) return "the backend's 101 has no connection: upgrade";
  const auto key = request.fields.value("sec-websocket-key");
  const auto accept = response.fields.value("sec-websocket-accept");
  const bool accepted = key && accept && *accept == websocket_accept(*key);
  return accepted ? nullptr : "the backend's sec-websocket-accept is wrong";
}

class Http1Link final : public Link {
 public:
  Http1Link(std::unique_ptr<Socket> socket, const LinkOptions& options)
      : socket_(std::move(socket)), options_(options) {}

  Task<Result<Response>> send(Request& request) override;
  std::size_t available_capacity() const override { return busy_ || !reusable_ ? 0 : 1; }
  bool alive(bool ask_kernel) override;
  void on_idle_close(Waiter* waiter) override {
    idle_close_waiter_ = waiter;
    Waiter* read_waiter = waiter == nullptr ? nullptr : &idle_read_;
    watch().on_readable(read_waiter);
    watch().on_hangup(read_waiter);
  }
  void suspect(Duration max_silence) override {
    silence_.set(max_silence, loop().now());
    if (busy_) watch().interrupt();
  }

 private:
  class ResponseBody;

  /// The idle link became readable: it was closed, or only TLS session tickets arrived.
  void on_idle_read() {
    if (idle_close_waiter_ != nullptr && !alive(false)) idle_close_waiter_->wake();
  }

  Watch& watch() { return socket_->watch(); }
  Loop& loop() { return socket_->loop(); }

  Result<Done> start_sending(Request& request);
  Task<Result<Done>> upload(Task<Result<Done>> written, Task<Result<Chunk>> pending,
                            Request& request, bool chunked, bool more);
  Task<Result<Done>> upload_body(Task<Result<Done>> written, Task<Result<Chunk>> pending,
                                 Request& request, bool chunked, bool more);
  Task<Result<Done>> upload_tunnel(Body& body);
  std::optional<Error> end_upload();
  Task<Result<Done>> read_head(HeadParser& parser);
  Error closed(const HeadParser& parser, Socket::ReadStatus got);
  bool may_be_idle_close_race();
  static Error ended_while_idle();
  bool has_awaited_client();
  Instant first_byte_deadline();
  void finish(bool clean);
  Error mark_unusable(Error error) {
    reusable_ = false;
    return error;
  }

  std::unique_ptr<Socket> socket_;
  LinkOptions options_;
  MethodWaiter<&Http1Link::on_idle_read> idle_read_{*this};
  Waiter* idle_close_waiter_ = nullptr;
  ReadBuffer in_;
  std::uint32_t body_begin_ = 0;  // in `in_`, behind the current head
  bool busy_ = false;
  bool reusable_ = true;
  bool served_ = false;  // an earlier exchange
  bool response_keep_alive_ = false;
  bool sent_ = false;  // part of the current request
  bool uploading_ = false;
  int interim_left_ = 0;
  Instant sent_at_{};  // when the current request began
  Instant first_byte_deadline_ = never;
  Instant last_upload_progress_{};       // when bytes of the request body last moved
  Instant awaits_client_since_ = never;  // since the backend has all that has come of the body
  Duration awaited_client_{};            // in the upload before that
  bool upload_broken_ = false;           // the backend closed before the end of it
  SilenceLimit silence_;
  Task<Result<Done>> upload_;  // of the current request; may end after the response's head
};

/// The body of a response, read from the link as it is pulled.
class Http1Link::ResponseBody final : public LinkBody {
 public:
  ResponseBody(Http1Link& link, const Framing& framing, bool tunnel, ConnectionBudget* budget)
      : link_(link),
        delay_(link.loop().now()),
        kind_(framing.kind),
        left_(framing.length),
        length_(framing.length),
        large_(budget) {
    awaits_beginning_ = !tunnel && kind_ != Framing::Kind::length;
    if (kind_ == Framing::Kind::length && length_ == 0) finished_ = true;
    if (finished_ && !link.in_.empty()) link.reusable_ = false;
  }
  ~ResponseBody() override { link_.finish(finished_); }

  Task<Result<Chunk>> read() override;
  std::optional<std::uint64_t> length() const override {
    return kind_ == Framing::Kind::length ? std::optional(length_) : std::nullopt;
  }

 private:
  std::optional<Result<Chunk>> take_buffered();
  std::optional<Result<Chunk>> take_joined();
  std::optional<Result<Chunk>> deliver(char* bytes, std::size_t size, std::uint32_t& begin);
  std::optional<Result<Chunk>> deliver_from(ReadBuffer& buffer);
  Task<Result<Chunk>> read_more();
  std::optional<Result<Chunk>> try_read();
  Error broken(const char* detail);

  Http1Link& link_;
  ReaderDelay delay_;
  Framing::Kind kind_;
  bool finished_ = kind_ == Framing::Kind::none;
  std::uint64_t left_;
  std::uint64_t length_;
  bool outgrown_ = false;  // the body has filled the block of the head
  ResponseBuffer large_;
  ChunkedDecoder decoder_;
};

// ---- response bodies --------------------------------------------------------------------------

/// Makes a chunk of bytes that were read; nothing while they hold no payload.
std::optional<Result<Chunk>> Http1Link::ResponseBody::deliver(char* bytes, std::size_t size,
                                                              std::uint32_t& begin) {
  Chunk chunk;
  switch (kind_) {
    case Framing::Kind::chunked: {
      const auto decoded = decoder_.decode(bytes, size);
      begin += static_cast<std::uint32_t>(decoded.consumed);
      if (decoded.step == ChunkedDecoder::Step::failed) {
        return backend_error(Fault::backend_protocol, decoder_.detail());
      }
      chunk.bytes = decoded.payload;
      chunk.last = decoded.step == ChunkedDecoder::Step::done;
      if (chunk.last && decoder_.trailers().size() > 0) chunk.trailers = &decoder_.trailers();
      if (chunk.bytes.empty() && !chunk.last) return std::nullopt;
      break;
    }
    case Framing::Kind::length: {
      const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(left_, size));
      chunk.bytes = {bytes, taken};
      begin += static_cast<std::uint32_t>(taken);
      left_ -= taken;
      chunk.last = left_ == 0;
      break;
    }
    case Framing::Kind::until_close:
    case Framing::Kind::none:
      chunk.bytes = {bytes, size};
      begin += static_cast<std::uint32_t>(size);
      break;
  }
  finished_ = chunk.last;
  awaits_beginning_ = false;
  return chunk;
}

std::optional<Result<Chunk>> Http1Link::ResponseBody::deliver_from(ReadBuffer& buffer) {
  auto chunk = deliver(buffer.block.data() + buffer.begin, buffer.end - buffer.begin, buffer.begin);
  if (finished_ && !buffer.empty()) link_.reusable_ = false;  // unexpected bytes after the message
  return chunk;
}

std::optional<Result<Chunk>> Http1Link::ResponseBody::take_buffered() {
  if (link_.in_.empty()) return std::nullopt;
  if (auto chunk = take_joined()) return chunk;
  return deliver_from(link_.in_);
}

/// Where the beginning of a long body lies behind its head, and the next part has come: both, in a
/// large block, so that one call sends them, which costs more than the copy.
std::optional<Result<Chunk>> Http1Link::ResponseBody::take_joined() {
  const std::string_view here = link_.in_.bytes();
  if (kind_ != Framing::Kind::length || left_ <= Block::small || left_ <= here.size() ||
      !link_.watch().readable()) {
    return std::nullopt;
  }
  large_.take(left_, true);
  if (!large_.block) return std::nullopt;
  std::memcpy(large_.block.data(), here.data(), here.size());
  link_.in_.begin = link_.in_.end;
  large_.begin = 0;
  large_.end = static_cast<std::uint32_t>(here.size());
  // Whether the connection has ended is found by the next read.
  large_.end += static_cast<std::uint32_t>(
      link_.socket_->read_some(large_.free_begin(), large_.free_size()).size);
  outgrown_ = true;
  return deliver_from(large_);
}

/// The next chunk if it can be read without waiting.
std::optional<Result<Chunk>> Http1Link::ResponseBody::try_read() {
  if (finished_) return Chunk{.last = true};
  if (auto chunk = take_buffered()) return chunk;
  ReadBuffer& in = link_.in_;
  while (link_.watch().readable()) {
    const bool fits = in.block.size() - link_.body_begin_ >= min_free_bytes;
    if (outgrown_ || !fits) large_.take(kind_ == Framing::Kind::length ? left_ : 0, fits);
    const bool here = !large_.block;
    if (here) {
      in.begin = in.end = link_.body_begin_;  // its bytes were consumed
    } else {
      large_.begin = large_.end = 0;
    }
    ReadBuffer& into = here ? in : large_;
    const std::size_t available_capacity = into.free_size();
    const auto got = link_.socket_->read_some(into.free_begin(), available_capacity);
    switch (got.status) {
      case Socket::ReadStatus::would_block: large_.release(); return std::nullopt;
      case Socket::ReadStatus::end:
        if (kind_ == Framing::Kind::until_close) {
          finished_ = true;
          return Chunk{.last = true};
        }
        return broken("the backend closed the connection within its response");
      case Socket::ReadStatus::failure:
        return broken("the backend broke the connection within its response");
      case Socket::ReadStatus::bytes: break;
    }
    into.end += static_cast<std::uint32_t>(got.size);
    auto chunk = deliver_from(into);
    outgrown_ = outgrown_ || got.size == available_capacity;
    if (chunk) return chunk;
  }
  large_.release();
  return std::nullopt;
}

/// The error of a response that the backend has cut off.
Error Http1Link::ResponseBody::broken(const char* detail) {
  if (delay_.is_long()) note_awaited_client();
  return backend_error(Fault::backend_closed, detail);
}

Task<Result<Chunk>> Http1Link::ResponseBody::read() {
  delay_.asked(link_.loop().now());
  if (auto chunk = try_read()) return std::move(*chunk);
  return read_more();
}

/// Waits for the next bytes. Servers send the head of a stream before they begin to work on it, so
/// the timeout for the head continues until the body begins.
Task<Result<Chunk>> Http1Link::ResponseBody::read_more() {
  const Duration timeout = link_.options_.idle_timeout;
  Instant began = link_.loop().now();
  while (true) {
    const bool first = awaits_beginning_ && !link_.uploading_;
    const Instant own = first ? link_.first_byte_deadline() : began + timeout;
    auto wake = co_await link_.watch().until_readable(link_.silence_.shorten(own, began));
    if (wake == Wake::expired) {
      if (first) {
        co_return backend_error(Fault::first_byte_timeout, "the backend sent no output in time");
      }
      began = link_.last_upload_progress_;
      if (link_.silence_.shorten(began + timeout, began) > link_.loop().now()) continue;
      if (link_.has_awaited_client()) note_awaited_client();
      co_return backend_error(Fault::idle_timeout, "the backend sent nothing for too long");
    }
    if (wake == Wake::interrupted) {
      if (auto failure = link_.end_upload()) co_return std::move(*failure);
    }
    delay_.waited(link_.loop().now());
    auto chunk = try_read();
    if (chunk) co_return std::move(*chunk);
  }
}

// ---- sending ----------------------------------------------------------------------------------

/// Sends the head and the first bytes of the body with one call; the rest is sent by `upload_`.
Result<Done> Http1Link::start_sending(Request& request) {
  Body* body = request.upgrade.empty() ? request.body.get() : nullptr;
  Framing framing;
  if (body != nullptr) {
    const auto length = body->length();
    framing = length ? Framing{Framing::Kind::length, *length} : Framing{Framing::Kind::chunked};
  } else if (request.method == "POST" || request.method == "PUT" || request.method == "PATCH") {
    framing = {Framing::Kind::length, 0};
  }
  const bool chunked = framing.kind == Framing::Kind::chunked;

  Task<Result<Chunk>> pending;
  Chunk first{.last = body == nullptr};
  if (body != nullptr) {
    pending = body->read();
    if (pending.ready()) {
      auto chunk = pending.take();
      if (!chunk) return std::move(chunk.error());  // nothing was sent: the link stays usable
      first = *chunk;
    }
  }

  sent_ = true;
  HeadWriter& out = HeadWriter::scratch();
  write_request_head(out, request, framing);
  std::string_view tail;
  std::string storage;
  const bool here = first.last || !first.bytes.empty();
  if (chunked && here) tail = frame_chunk(out, first, storage);
  gather(out, first.bytes, tail);
  auto written = socket_->write(out.written(), first.bytes, tail, options_.idle_timeout);
  if (written.ready() && first.last) {
    auto sent = written.take();
    if (!sent) return mark_unusable(attribute_to_backend(std::move(sent.error())));
    request.info.timings.uploaded = loop().now();
    return Done{};
  }

  uploading_ = true;
  upload_ = upload(std::move(written), std::move(pending), request, chunked, !first.last);
  if (auto failure = end_upload()) return std::move(*failure);
  return Done{};
}

/// Takes the result of a finished upload. After a failure the request is incomplete, so the link
/// cannot be reused. That the backend closed is not returned: it may have answered before.
std::optional<Error> Http1Link::end_upload() {
  if (!upload_.valid() || !upload_.ready()) return std::nullopt;
  uploading_ = false;
  auto uploaded = upload_.take();
  if (uploaded) return std::nullopt;
  reusable_ = false;
  if (uploaded.error().fault == Fault::backend_closed) {
    upload_broken_ = true;
    return std::nullopt;
  }
  return std::move(uploaded.error());
}

/// Sends the rest of the request body as the backend reads it, then interrupts the response's
/// reader.
Task<Result<Done>> Http1Link::upload(Task<Result<Done>> written, Task<Result<Chunk>> pending,
                                     Request& request, bool chunked, bool more) {
  auto result =
      co_await upload_body(std::move(written), std::move(pending), request, chunked, more);
  if (result) request.info.timings.uploaded = loop().now();
  watch().interrupt();
  co_return result;
}

Task<Result<Done>> Http1Link::upload_body(Task<Result<Done>> written, Task<Result<Chunk>> pending,
                                          Request& request, bool chunked, bool more) {
  auto sent = co_await written;
  if (!sent) co_return attribute_to_backend(std::move(sent.error()));
  int without_waiting = 0;
  while (more) {
    if (!pending.valid()) pending = request.body->read();
    std::optional<Counted> counted;
    if (!pending.ready()) {
      awaits_client_since_ = loop().now();
      counted.emplace(request.awaiting_clients);
    }
    auto chunk = co_await pending;
    counted.reset();
    if (awaits_client_since_ != never) {
      awaited_client_ += loop().now() - awaits_client_since_;
      awaits_client_since_ = never;
    }
    if (!chunk) co_return std::move(chunk.error());
    HeadWriter& out = HeadWriter::scratch();
    std::string_view tail;
    std::string storage;
    if (chunked) tail = frame_chunk(out, *chunk, storage);
    more = !chunk->last;
    auto moved = co_await write_gathered(*socket_, out, chunk->bytes, tail, options_.idle_timeout);
    if (!moved) co_return attribute_to_backend(std::move(moved.error()));
    last_upload_progress_ = loop().now();
    if (++without_waiting == chunks_between_yields) {
      without_waiting = 0;
      co_await loop().yield();
    }
  }
  co_return Done{};
}

Task<Result<Done>> Http1Link::upload_tunnel(Body& body) {
  while (true) {
    auto chunk = co_await body.read();
    if (!chunk) break;
    if (!chunk->bytes.empty()) {
      auto moved = co_await socket_->write({}, chunk->bytes, {}, options_.idle_timeout);
      if (!moved) break;
      last_upload_progress_ = loop().now();
    }
    if (chunk->last) break;
  }
  socket_->shutdown_write();
  co_return Done{};
}

// ---- the exchange -----------------------------------------------------------------------------

// Long: one exchange in one coroutine, whose frame is all that it costs.
Task<Result<Response>> Http1Link::send(Request& request) {
  busy_ = true;
  interim_left_ = max_interim_responses;
  sent_ = false;
  sent_at_ = loop().now();
  first_byte_deadline_ = never;
  awaited_client_ = {};
  upload_broken_ = false;
  auto started = start_sending(request);
  if (!started && !sent_) {
    busy_ = false;  // the link stays usable
    co_return std::move(started.error());
  }
  if (!started && started.error().side == Side::client) co_return std::move(started.error());
  // A backend that closed during the upload may have answered before: continue reading.

  while (true) {
    HeadParser parser(HeadParser::Kind::response,
                      {options_.header_bytes, options_.header_fields, 0});
    auto head_result = co_await read_head(parser);
    if (!head_result) co_return mark_unusable(std::move(head_result.error()));

    Response response;
    Http1MessageInfo message_info;
    auto problem = accept_response(parser.head(), request.method, response, message_info);
    if (problem) co_return mark_unusable(backend_error(problem->fault, problem->detail));

    if (response.status == 101) {
      if (const char* wrong = problem_of_upgrade(request, response, message_info.upgrades)) {
        co_return mark_unusable(backend_error(Fault::backend_protocol, wrong));
      }
      reusable_ = false;
      message_info.framing.kind = Framing::Kind::until_close;
      upload_ = upload_tunnel(*request.body);
    } else if (response.status < 200) {
      if (--interim_left_ < 0) {
        co_return mark_unusable(
            backend_error(Fault::backend_protocol, "too many interim responses"));
      }
      if (response.status != 100 && request.interim != nullptr) {
        request.interim->interim(response.status, response.fields);
      }
      continue;
    }

    if (response.status == 408 && !message_info.keep_alive && may_be_idle_close_race()) [[unlikely]]
      co_return mark_unusable(ended_while_idle());
    request.info.timings.first_byte = loop().now();
    body_begin_ = in_.begin;
    response_keep_alive_ = message_info.keep_alive && !may_be_out_of_step(response);
    response.body = std::make_unique<ResponseBody>(*this, message_info.framing,
                                                   response.status == 101, request.response_budget);
    co_return response;
  }
}

Error Http1Link::closed(const HeadParser& parser, Socket::ReadStatus got) {
  Error error = backend_error(Fault::backend_closed, got == Socket::ReadStatus::end
                                                         ? "the backend closed without a response"
                                                         : "the backend broke the connection");
  if (parser.started()) error.detail = "the backend closed the connection within the response head";
  if (has_awaited_client()) {
    error.awaited_client = true;  // it need not wait for ever
    error.detail = "the backend closed the connection while it waited for the client's upload";
  }
  error.idle_close_race = !parser.started() && may_be_idle_close_race();
  return error;
}

/// True if the backend was probably ending an idle connection and has not read the request.
bool Http1Link::may_be_idle_close_race() {
  return served_ && interim_left_ == max_interim_responses &&
         loop().now() - sent_at_ < max_idle_close_race;
}

/// The backend has closed the connection, or written something that no request has asked for: some
/// end an idle connection with a 408, which is no answer to the request that crosses it.
Error Http1Link::ended_while_idle() {
  Error error = backend_error(Fault::backend_closed, "the backend ended the idle connection");
  error.idle_close_race = true;
  return error;
}

/// True if the backend has all that has come of an upload that has not ended, and has waited for
/// more.
bool Http1Link::has_awaited_client() {
  const bool awaits = uploading_ && awaits_client_since_ != never;
  if (!awaits && !upload_broken_) return false;
  const Instant now = loop().now();
  const Duration pause = awaits ? now - awaits_client_since_ : Duration{};
  return waited_for_upload(pause, awaited_client_ + pause, now - sent_at_);
}

/// Counts from the end of the upload.
Instant Http1Link::first_byte_deadline() {
  if (uploading_) return never;
  if (first_byte_deadline_ == never) {
    first_byte_deadline_ = loop().now() + options_.first_byte_timeout;
  }
  return first_byte_deadline_;
}

Task<Result<Done>> Http1Link::read_head(HeadParser& parser) {
  if (!in_.block) in_.block = Block::take(Block::small);
  while (true) {
    if (!in_.empty()) {
      const auto step = parser.parse(in_);
      if (step == HeadParser::Step::done) co_return Done{};
      if (step == HeadParser::Step::failed) {
        co_return backend_error(Fault::backend_protocol, parser.detail());
      }
      if (in_.free_size() == 0 && !parser.grow_buffer(in_)) {
        co_return backend_error(Fault::backend_protocol, parser.detail());
      }
    } else {
      in_.begin = in_.end = 0;
    }
    if (!watch().readable()) {
      auto wake =
          co_await watch().until_readable(silence_.shorten(first_byte_deadline(), sent_at_));
      if (wake == Wake::expired) {
        co_return backend_error(Fault::first_byte_timeout, "the backend did not answer in time");
      }
      if (wake == Wake::interrupted) {
        if (auto failure = end_upload()) co_return std::move(*failure);
        continue;
      }
    }
    const auto got = socket_->read_some(in_.free_begin(), in_.free_size());
    if (got.status == Socket::ReadStatus::would_block) continue;
    if (got.status != Socket::ReadStatus::bytes) co_return closed(parser, got.status);
    in_.end += static_cast<std::uint32_t>(got.size);
  }
}

/// Ends an exchange and decides whether the connection is reused.
void Http1Link::finish(bool clean) {
  end_upload();
  if (!clean || !response_keep_alive_ || uploading_) reusable_ = false;
  upload_.drop();
  uploading_ = false;
  awaits_client_since_ = never;
  if (reusable_) in_.release();
  served_ = true;
  busy_ = false;
}

bool Http1Link::alive(bool ask_kernel) { return socket_->is_idle_and_open(ask_kernel); }

}  // namespace

std::unique_ptr<Link> make_http1_link(std::unique_ptr<Socket> socket, const LinkOptions& options) {
  return std::make_unique<Http1Link>(std::move(socket), options);
}

}  // namespace evenkeel
