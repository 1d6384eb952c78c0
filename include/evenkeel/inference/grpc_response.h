// Responses to gRPC calls: unary ones, and streams in both directions.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// How a call, or one request of a stream, fails.
struct GrpcError {
  GrpcStatus status = GrpcStatus::internal;
  std::string message;
};

template <class T>
using GrpcResult = std::variant<T, GrpcError>;

/// The largest message that is read where nothing else is said.
inline constexpr std::size_t max_grpc_message_bytes = std::size_t{256} << 20;

/// Reads the message of a unary call. An error: the framing is malformed, the message is larger
/// than `max_bytes`, or the client left.
Task<Result<std::string>> read_unary_message(Request& request,
                                             std::size_t max_bytes = max_grpc_message_bytes);

/// A response of one message.
Response grpc_unary_response(std::string_view message);
Response grpc_error_response(const GrpcError& failure);

/// Sends the responses of a stream.
class GrpcStreamWriter {
 public:
  virtual ~GrpcStreamWriter() = default;
  virtual void write(std::string_view message) = 0;
  /// Ends the stream with an error, after the messages written so far.
  virtual void fail(GrpcError failure) = 0;
};

/// Answers one message of a stream, concurrently with others. `writer` outlives the task.
using MessageHandler = std::function<Task<void>(std::string message, GrpcStreamWriter& writer)>;

/// The response to a stream of requests. `requests` null: there is none; it outlives the response.
Response grpc_stream_response(Loop& loop, Body* requests, MessageHandler handler,
                              std::size_t max_bytes = max_grpc_message_bytes);

/// The body of a streamed response: answers each message of the request in a task of its own. Ends
/// when the client has sent its last message and all are answered. Destroying it drops the tasks.
class GrpcResponseStream final : public Body, private GrpcStreamWriter {
 public:
  GrpcResponseStream(Loop& loop, Body* requests, MessageHandler handler, std::size_t max_bytes);
  Task<Result<Chunk>> read() override;

 private:
  void write(std::string_view message) override;
  void fail(GrpcError failure) override;
  Task<void> read_requests(std::size_t max_bytes);
  Task<void> answer(std::string message);
  Chunk end();

  Body* requests_;
  MessageHandler handler_;
  Signal changed_;
  std::string pending_;
  std::string sending_;
  Fields trailers_;
  std::optional<GrpcError> failure_;
  bool requests_done_ = false;
  std::list<Task<void>> active_handlers_;
  Task<void> reading_;
};

}  // namespace evenkeel
