// How an HTTP/1 connection writes responses.
#include <string>

#include "evenkeel/http/status.h"
#include "http1_connection.h"
#include "message_rules.h"
#include "refusal.h"
#include "yield_counter.h"

namespace evenkeel {
namespace {

constexpr std::string_view crlf = "\r\n";

}  // namespace

/// A writer for a final head, after the rest of an interim response.
HeadWriter& Http1Connection::begin_head() {
  HeadWriter& out = HeadWriter::scratch();
  if (!transport_.unsent_interim.empty()) {
    out << transport_.unsent_interim;
    transport_.unsent_interim.clear();
  }
  return out;
}

void Http1Connection::interim(int status, const Fields& fields) {
  HeadWriter& out = HeadWriter::scratch();
  out << "HTTP/1.1 " << static_cast<std::uint64_t>(status) << " " << phrase_of(status) << crlf;
  for (const Field& field : fields) out.field(field.name(), field.value());
  out << crlf;
  transport_.write_interim(out.written());
}

Task<Http1Connection::Next> Http1Connection::respond(Request& request, Response& response,
                                                     bool keep_alive) {
  const bool bodiless = declare_length(request.method, response);
  Framing framing;
  if (response.status == 101) {
    framing.kind = Framing::Kind::until_close;
    keep_alive = false;
  } else if (!bodiless) {
    const auto length = response.body ? response.body->length() : std::optional<std::uint64_t>(0);
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
  const bool counted = framing.kind == Framing::Kind::length;
  if (!response.body || bodiless || (counted && framing.length == 0)) {
    return write_whole(request.info, response, framing, {}, !keep_alive);
  }
  auto next = response.body->read();
  if (counted && next.ready()) {
    auto first = next.take();
    if (first && first->last) {
      return write_whole(request.info, response, framing, first->bytes, !keep_alive);
    }
    next = Task<Result<Chunk>>(std::move(first));
  }
  return pump(request, response, framing, !keep_alive, std::move(next));
}

/// Writes a response all of which is here, as most are: with one write, and without a coroutine if
/// the kernel takes it at once.
Task<Http1Connection::Next> Http1Connection::write_whole(RequestInfo& info,
                                                         const Response& response,
                                                         const Framing& framing,
                                                         std::string_view body, bool close) {
  HeadWriter& out = begin_head();
  write_response_head(out, response, framing, close, minor_version_);
  auto writing = write_gathered(socket(), out, body, {}, config_.timeouts.write);
  if (!writing.ready()) {
    return finish_writing(std::move(writing), info, framing, body.size(), close);
  }
  return end_writing(writing.take(), info, framing, body.size(), close);
}

Task<Http1Connection::Next> Http1Connection::finish_writing(Task<Result<Done>> writing,
                                                            RequestInfo& info, Framing framing,
                                                            std::size_t body_size, bool close) {
  const auto written = co_await writing;
  co_return end_writing(written, info, framing, body_size, close);
}

Http1Connection::Next Http1Connection::end_writing(const Result<Done>& written, RequestInfo& info,
                                                   const Framing& framing, std::size_t body_size,
                                                   bool close) {
  if (!written) return abort(info, written.error(), framing);
  info.outcome.bytes_out += body_size;
  return close ? Next::linger : Next::keep;
}

/// The only loop that moves response bytes: pulls a chunk and writes it at once. `next`: the first.
Task<Http1Connection::Next> Http1Connection::pump(Request& request, Response& response,
                                                  Framing framing, bool close,
                                                  Task<Result<Chunk>> next) {
  RequestInfo& info = request.info;
  const bool chunked = framing.kind == Framing::Kind::chunked;
  const bool tunnel = response.status == 101;
  const bool abort_on_half_close = config_.half_close == HalfClose::abort && !tunnel;
  bool head_written = false;
  YieldCounter steps;

  while (true) {
    if (!next.ready()) {
      steps.waited();
      if (!head_written) {
        HeadWriter& out = begin_head();
        write_response_head(out, response, framing, close, minor_version_);
        auto written = co_await socket().write(out.written(), {}, {}, config_.timeouts.write);
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
      Response failure = failure_response(result.error(), request);
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
        co_await write_gathered(socket(), out, chunk.bytes, tail, config_.timeouts.write);
    if (!written) co_return abort(info, written.error(), framing);
    head_written = true;
    info.outcome.bytes_out += chunk.bytes.size();
    if (chunk.last) break;
    if (steps.is_due()) co_await loop().yield();
    next = response.body->read();
  }
  co_return close ? Next::linger : Next::keep;
}

/// Ends a response that cannot be completed in a way that the client notices.
Http1Connection::Next Http1Connection::abort(RequestInfo& info, const Error& error,
                                             const Framing& framing) {
  info.outcome.fault = error.fault;
  // Without framing, an orderly close would mark the response as complete.
  if (framing.kind == Framing::Kind::until_close) socket().reset();
  return Next::close;
}

}  // namespace evenkeel
