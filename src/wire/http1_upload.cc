#include "http1_upload.h"

#include <string>
#include <string_view>
#include <utility>

#include "http1_message.h"
#include "message_rules.h"
#include "yield_counter.h"

namespace evenkeel {
namespace {

/// Turns the error of a failed write into the backend's.
Error attribute_to_backend(Error error) {
  if (error.fault == Fault::write_timeout) return stalled_upload();
  return backend_error(Fault::backend_closed, std::move(error.detail));
}

Framing framing_of(const Request& request) {
  if (const Body* body = body_to_send(request)) {
    const auto length = body->length();
    return length ? Framing{Framing::Kind::length, *length} : Framing{Framing::Kind::chunked};
  }
  return declares_empty_body(request.method) ? Framing{Framing::Kind::length, 0} : Framing{};
}

}  // namespace

Error Http1Upload::fail(Error error) {
  failed_ = true;
  return error;
}

Result<Done> Http1Upload::start(Request& request) {
  sent_ = failed_ = false;
  Body* const body = body_to_send(request);
  Task<Result<Chunk>> pending;
  Chunk first{.last = body == nullptr};
  if (body != nullptr) {
    pending = body->read();
    if (pending.ready()) {
      auto chunk = pending.take();
      if (!chunk) return std::move(chunk.error());
      first = *chunk;
    }
  }

  sent_ = true;
  const Framing framing = framing_of(request);
  const bool chunked = framing.kind == Framing::Kind::chunked;
  HeadWriter& out = HeadWriter::scratch();
  write_request_head(out, request, framing);
  std::string_view tail;
  std::string storage;
  const bool here = first.last || !first.bytes.empty();
  if (chunked && here) tail = frame_chunk(out, first, storage);
  auto written = write_gathered(socket_, out, first.bytes, tail, options_.idle_timeout);
  if (written.ready() && first.last) {
    auto sent = written.take();
    if (!sent) return fail(attribute_to_backend(std::move(sent.error())));
    request.info.timings.uploaded = socket_.loop().now();
    return Done{};
  }

  exchange_.upload.running = true;
  running_ = send_rest(std::move(written), std::move(pending), request, chunked, !first.last);
  if (auto failure = take_failure()) return std::move(*failure);
  return Done{};
}

std::optional<Error> Http1Upload::take_failure() {
  if (!running_.valid() || !running_.ready()) return std::nullopt;
  auto uploaded = running_.take();
  if (uploaded) return std::nullopt;
  Error error = fail(std::move(uploaded.error()));
  if (error.fault != Fault::backend_closed) return error;
  exchange_.upload.broken = true;
  return std::nullopt;
}

/// Sends the rest of the request body as the backend reads it, then interrupts the response's
/// reader.
Task<Result<Done>> Http1Upload::send_rest(Task<Result<Done>> written, Task<Result<Chunk>> pending,
                                          Request& request, bool chunked, bool more) {
  auto result = co_await send_body(std::move(written), std::move(pending), request, chunked, more);
  exchange_.upload.running = false;
  if (result) request.info.timings.uploaded = socket_.loop().now();
  socket_.watch().interrupt();
  co_return result;
}

Task<Result<Done>> Http1Upload::send_body(Task<Result<Done>> written, Task<Result<Chunk>> pending,
                                          Request& request, bool chunked, bool more) {
  Loop& loop = socket_.loop();
  auto sent = co_await written;
  if (!sent) co_return attribute_to_backend(std::move(sent.error()));
  YieldCounter steps;
  while (more) {
    if (!pending.valid()) pending = request.body->read();
    std::optional<UploadWaits::Wait> wait;
    if (!pending.ready()) wait.emplace(exchange_.upload.waits, loop, request.awaiting_clients);
    auto chunk = co_await pending;
    wait.reset();
    if (!chunk) co_return std::move(chunk.error());
    HeadWriter& out = HeadWriter::scratch();
    std::string_view tail;
    std::string storage;
    if (chunked) tail = frame_chunk(out, *chunk, storage);
    more = !chunk->last;
    auto moved = co_await write_gathered(socket_, out, chunk->bytes, tail, options_.idle_timeout);
    if (!moved) co_return attribute_to_backend(std::move(moved.error()));
    last_progress_ = loop.now();
    if (steps.is_due()) co_await loop.yield();
  }
  co_return Done{};
}

Task<Result<Done>> Http1Upload::send_tunnel(Body& body) {
  while (true) {
    auto chunk = co_await body.read();
    if (!chunk) break;
    if (!chunk->bytes.empty()) {
      auto moved = co_await socket_.write({}, chunk->bytes, {}, options_.idle_timeout);
      if (!moved) break;
      last_progress_ = socket_.loop().now();
    }
    if (chunk->last) break;
  }
  socket_.shutdown_write();
  co_return Done{};
}

}  // namespace evenkeel
