// The two kinds of gRPC calls that a simulated server answers: one request and one response, and a
// stream of each.
#pragma once

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
struct CallFailure {
  GrpcStatus status = GrpcStatus::internal;
  std::string message;
};

template <class T>
using Outcome = std::variant<T, CallFailure>;

/// The one message of a call that has one. Errors are those of its framing, and of its client.
Task<Result<std::string>> read_only_message(Request& request);

/// A response of one message.
Response grpc_reply(std::string_view message);
Response grpc_failure(const CallFailure& failure);

/// Where the responses of a stream go.
class StreamSink {
 public:
  virtual ~StreamSink() = default;
  virtual void say(std::string_view message) = 0;
  /// Ends the whole stream, after what was said.
  virtual void fail(CallFailure failure) = 0;
};

/// Answers one message of a stream; may take its time, while others are being answered.
/// The sink outlives the task.
using Answerer = std::function<Task<void>(std::string message, StreamSink& sink)>;

/// The response to a stream of requests. `requests` null: there is none; it outlives the response.
Response grpc_stream(Loop& loop, Body* requests, Answerer answerer);

/// A stream of requests, each answered by a task of its own, as the body of the response. Ends when
/// its client has sent the last one and all are answered. Dropping it drops what is unanswered.
class GrpcStreamBody final : public Body, private StreamSink {
 public:
  GrpcStreamBody(Loop& loop, Body* requests, Answerer answerer);
  Task<Result<Chunk>> read() override;

 private:
  void say(std::string_view message) override;
  void fail(CallFailure failure) override;
  Task<void> take_requests();
  Task<void> answer(std::string message);
  Chunk end();

  Body* requests_;
  Answerer answerer_;
  Signal changed_;
  std::string pending_;
  std::string sending_;
  Fields trailers_;
  std::optional<CallFailure> failure_;
  bool all_taken_ = false;
  std::list<Task<void>> answering_;
  Task<void> taking_;
};

}  // namespace evenkeel
