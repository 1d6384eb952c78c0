#include "evenkeel/inference/grpc_response.h"

#include <utility>
#include <vector>

#include "evenkeel/http/status.h"
#include "evenkeel/inference/grpc_message.h"

namespace evenkeel {
namespace {

using Step = GrpcMessageReader::Step;

/// What is wrong with the frames of a call is INTERNAL, as gRPC's own library has it.
Error broken(Fault fault, const char* detail) {
  return {.fault = fault, .side = Side::client, .detail = detail};
}

/// Reads the messages of a request, each when it is complete. An error: the framing is malformed,
/// or the client left. REQUIRES: `body` (null: there is none) and `take` outlive it.
Task<Result<Done>> read_messages(Body* body, std::size_t max_bytes,
                                 const std::function<void(std::string)>& take) {
  GrpcMessageReader reader(max_bytes);
  bool last = body == nullptr;
  while (!last) {
    auto chunk = co_await body->read();
    if (!chunk) co_return std::move(chunk.error());
    last = chunk->last;
    std::string_view bytes = chunk->bytes;
    for (Step step = reader.read(bytes); step != Step::more; step = reader.read(bytes)) {
      if (step == Step::too_large)
        co_return broken(Fault::body_too_large, "the message is too large");
      if (step == Step::malformed) co_return broken(Fault::internal, "malformed message framing");
      if (reader.compressed())
        co_return broken(Fault::not_implemented, "compressed messages are not supported");
      take(std::string(reader.message()));
    }
  }
  if (!reader.at_boundary()) co_return broken(Fault::internal, "the stream ended within a message");
  co_return Done{};
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
  response.body = std::move(body);
  return response;
}

}  // namespace

Task<Result<std::string>> read_unary_message(Request& request, std::size_t max_bytes) {
  std::vector<std::string> messages;
  const std::function<void(std::string)> keep = [&](std::string message) {
    messages.push_back(std::move(message));
  };
  const auto read = co_await read_messages(request.body.get(), max_bytes, keep);
  if (!read) co_return read.error();
  if (messages.empty()) co_return broken(Fault::internal, "the request ended before its message");
  if (messages.size() > 1) co_return broken(Fault::internal, "more than one message");
  co_return std::move(messages.front());
}

Response grpc_unary_response(std::string_view message) {
  return grpc_response(std::make_unique<ReplyBody>(message));
}

Response grpc_error_response(const GrpcError& failure) {
  return grpc_trailers_only(failure.status, failure.message);
}

// ---- streams

Response grpc_stream_response(Loop& loop, Body* requests, MessageHandler handler,
                              std::size_t max_bytes) {
  return grpc_response(
      std::make_unique<GrpcResponseStream>(loop, requests, std::move(handler), max_bytes));
}

GrpcResponseStream::GrpcResponseStream(Loop& loop, Body* requests, MessageHandler handler,
                                       std::size_t max_bytes)
    : requests_(requests), handler_(std::move(handler)), changed_(loop) {
  reading_ = read_requests(max_bytes);
}

Task<void> GrpcResponseStream::read_requests(std::size_t max_bytes) {
  const std::function<void(std::string)> take = [this](std::string message) {
    if (!failure_) active_handlers_.push_back(answer(std::move(message)));
  };
  const auto read = co_await read_messages(requests_, max_bytes, take);
  requests_done_ = true;
  if (!read) {
    fail({.status = grpc_status_of(read.error().fault), .message = read.error().detail});
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
