#include "sim/grpc_response.h"

#include <utility>

#include "evenkeel/http/status.h"
#include "evenkeel/inference/grpc_message.h"

namespace evenkeel {
namespace {

using Step = GrpcMessageReader::Step;

constexpr std::size_t max_message_bytes = 256 << 20;

/// What is wrong with the frames of a call is INTERNAL, as gRPC's own library has it.
Error broken(Fault fault, const char* detail) {
  return {.fault = fault, .side = Side::client, .detail = detail};
}

/// Why the bytes read are not a message; nothing: they are, or more are needed.
std::optional<Error> framing_error(Step step, const GrpcMessageReader& reader) {
  switch (step) {
    case Step::more: return std::nullopt;
    case Step::too_large: return broken(Fault::body_too_large, "the message is too large");
    case Step::malformed: return broken(Fault::internal, "malformed message framing");
    case Step::message: break;
  }
  if (reader.compressed()) {
    return broken(Fault::not_implemented, "compressed messages are not supported");
  }
  return std::nullopt;
}

void write_trailers(const GrpcError* failure, Fields& trailers) {
  trailers.add("grpc-status",
               grpc_status_digits(failure == nullptr ? GrpcStatus::ok : failure->status));
  if (failure == nullptr || failure->message.empty()) return;
  std::string escaped;
  append_grpc_message(escaped, failure->message);
  trailers.add("grpc-message", trailers.keep(escaped));
}

/// One message, then the status.
class ReplyBody final : public Body {
 public:
  explicit ReplyBody(std::string_view message) {
    append_grpc_frame(frame_, message);
    write_trailers(nullptr, trailers_);
  }
  Task<Result<Chunk>> read() override {
    return Result<Chunk>(Chunk{.bytes = frame_, .last = true, .trailers = &trailers_});
  }

 private:
  std::string frame_;
  Fields trailers_;
};

Response grpc_response(BodyPtr body) {
  Response response;
  response.fields.add("content-type", "application/grpc");
  response.fields.add("server", "evenkeel-sim");
  response.body = std::move(body);
  return response;
}

}  // namespace

Task<Result<std::string>> read_unary_message(Request& request) {
  GrpcMessageReader reader(max_message_bytes);
  std::optional<std::string> message;
  bool last = request.body == nullptr;
  while (!last) {
    auto chunk = co_await request.body->read();
    if (!chunk) co_return std::move(chunk.error());
    last = chunk->last;
    std::string_view bytes = chunk->bytes;
    Step step = Step::more;
    do {
      step = reader.read(bytes);
      if (auto wrong = framing_error(step, reader)) co_return std::move(*wrong);
      if (step != Step::message) continue;
      if (message) co_return broken(Fault::internal, "more than one message");
      message = std::string(reader.message());
    } while (step == Step::message);
  }
  if (!message || !reader.at_boundary()) {
    co_return broken(Fault::internal, "the request ended before its message");
  }
  co_return std::move(*message);
}

Response grpc_unary_response(std::string_view message) {
  return grpc_response(std::make_unique<ReplyBody>(message));
}

Response grpc_error_response(const GrpcError& failure) {
  return grpc_trailers_only(failure.status, failure.message);
}

// ---- streams

Response grpc_stream_response(Loop& loop, Body* requests, MessageHandler handler) {
  return grpc_response(std::make_unique<GrpcResponseStream>(loop, requests, std::move(handler)));
}

GrpcResponseStream::GrpcResponseStream(Loop& loop, Body* requests, MessageHandler handler)
    : requests_(requests), handler_(std::move(handler)), changed_(loop) {
  reading_ = read_requests();
}

Task<void> GrpcResponseStream::read_requests() {
  GrpcMessageReader reader(max_message_bytes);
  bool last = requests_ == nullptr;
  while (!last && !failure_) {
    auto chunk = co_await requests_->read();
    if (!chunk) {
      fail({.status = grpc_status_of(chunk.error().fault), .message = chunk.error().detail});
      co_return;
    }
    last = chunk->last;
    std::string_view bytes = chunk->bytes;
    Step step = Step::more;
    do {
      step = reader.read(bytes);
      if (auto wrong = framing_error(step, reader)) {
        fail({.status = grpc_status_of(wrong->fault), .message = wrong->detail});
        co_return;
      }
      if (step == Step::message) active_handlers_.push_back(answer(std::string(reader.message())));
    } while (step == Step::message);
  }
  requests_done_ = true;
  if (!reader.at_boundary()) {
    fail({.status = GrpcStatus::internal, .message = "the stream ended within a message"});
  }
  changed_.raise();
}

Task<void> GrpcResponseStream::answer(std::string message) {
  co_await handler_(std::move(message), *this);
  changed_.raise();
}

void GrpcResponseStream::write(std::string_view message) {
  if (failure_) return;
  append_grpc_frame(pending_, message);
  changed_.raise();
}

void GrpcResponseStream::fail(GrpcError failure) {
  if (!failure_) failure_ = std::move(failure);
  changed_.raise();
}

Task<Result<Chunk>> GrpcResponseStream::read() {
  while (true) {
    // None of these is running: the loop resumes this coroutine, not they.
    active_handlers_.remove_if([](const Task<void>& task) { return task.ready(); });
    const bool ended = failure_ || (requests_done_ && active_handlers_.empty());
    if (!pending_.empty()) {
      sending_.clear();
      sending_.swap(pending_);
      if (ended) co_return end();
      co_return Chunk{.bytes = sending_};
    }
    sending_.clear();
    if (ended) co_return end();
    co_await changed_.wait();
  }
}

Chunk GrpcResponseStream::end() {
  active_handlers_.clear();
  write_trailers(failure_ ? &*failure_ : nullptr, trailers_);
  return {.bytes = sending_, .last = true, .trailers = &trailers_};
}

}  // namespace evenkeel
