// The body of a response whose bytes are read as they pass.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "evenkeel/base/loop.h"
#include "evenkeel/http/inference_info.h"
#include "evenkeel/http/message.h"
#include "evenkeel/http/status.h"
#include "evenkeel/inference/event_editor.h"
#include "evenkeel/inference/response_reader.h"

namespace evenkeel {

/// Follows what a response reports.
class StreamListener {
 public:
  virtual ~StreamListener() = default;
  /// True if output in the next chunk matters.
  virtual bool wants_output() const { return true; }
  /// A chunk has passed. `response`: what was reported so far.
  virtual void on_chunk(const Chunk& chunk, const InferenceResponse& response, Instant now) = 0;
  /// Nothing follows. `complete`: the response was not cut off.
  virtual void on_end(bool /*complete*/, Instant /*now*/) {}
};

/// Reads a response once, as its bytes pass unchanged, for all who need to know what is in it.
///
/// If the backend breaks a stream of events or JSON lines, the client gets an error event in the
/// shape that its library parses, and then a connection or stream that ends without the end of the
/// message. An event in which the backend itself reports an error makes the request a failed one
/// (`stream_error`). What the client did not ask for is changed (EventEditor).
///
/// REQUIRES: `info` outlives it. Everything is set up before the first read. Thread: the loop's.
class StreamBody final : public Body {
 public:
  StreamBody(Loop& loop, BodyPtr body, ResponseFormat format, RequestInfo& info)
      : loop_(loop), body_(std::move(body)), format_(format), info_(info) {}
  ~StreamBody() override;

  /// Events in which the server reports an error count.
  void find_errors() { interests_.errors = true; }
  /// A stream that breaks ends with an error event of this format.
  void end_with_error(ErrorFormat format) { error_format_ = format; }
  /// `listener` is the inner body, or part of it.
  void set_source(StreamListener& listener) { source_ = &listener; }
  /// What is read goes into `info.inference->response`. REQUIRES: `info.inference`.
  void set_observer(std::unique_ptr<StreamListener> observer);
  /// See EventEditor.
  void edit(EventEdits edits);

  Task<Result<Chunk>> read() override;
  std::optional<std::uint64_t> length() const override;

 private:
  Task<Result<Chunk>> read_until_some(Task<Result<Chunk>> next);
  bool pass(Result<Chunk>& chunk);
  void break_off(Result<Chunk>& chunk);
  void end(bool complete, Instant now);

  Loop& loop_;
  BodyPtr body_;
  const ResponseFormat format_;
  RequestInfo& info_;
  InferenceResponse own_response_;  // of a response that is not observed
  InferenceResponse* response_ = &own_response_;
  ResponseInterests interests_;
  std::unique_ptr<ResponseReader> reader_;  // null: nothing was read yet
  StreamListener* source_ = nullptr;
  std::unique_ptr<StreamListener> observer_;
  std::unique_ptr<EventEditor> editor_;
  std::optional<ErrorFormat> error_format_;
  std::optional<Error> broken_;
  std::string tail_;         // what follows a stream that has broken
  bool has_waited_ = false;  // for the first chunk: the head may have been written
  bool ended_ = false;
};

}  // namespace evenkeel
