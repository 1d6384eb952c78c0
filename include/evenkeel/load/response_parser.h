// Reads from a response what a load reports: tokens, the end, errors.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/http/inference_info.h"
#include "evenkeel/http/sse.h"
#include "evenkeel/inference/response_reader.h"

namespace evenkeel {

/// The `usage` of a response.
struct ResponseUsage {
  std::optional<std::uint64_t> completion_tokens;
  std::optional<std::uint64_t> cached_tokens;  ///< of the prompt, found in a prefix cache
};

/// Reads `usage` from a chat completion.
ResponseUsage parse_usage(std::string_view json);

/// The first model in a response to GET /v1/models; empty: none.
std::string parse_first_model(std::string_view json);

/// Counts the tokens of a stream of server-sent events that arrives in pieces.
class StreamParser {
 public:
  /// Reads the next bytes. Returns how many events with generated text they completed.
  unsigned feed(std::string_view bytes);
  /// The stream has ended.
  void finish() { reader_->finish(Instant{}); }

  /// Events with generated text so far: one token each, unless the engine sends several at once.
  std::uint64_t content_events() const { return response_.output_events; }
  /// True if `data: [DONE]` was read: the stream is complete.
  bool done() const { return done_; }
  /// The payload of the first `data: {"error": ...}`; empty: none.
  const std::string& error() const { return error_; }
  /// REQUIRES: `finish` was called.
  ResponseUsage usage() const;

 private:
  void end_event();

  InferenceResponse response_;
  std::unique_ptr<ResponseReader> reader_ =
      ResponseReader::create(ResponseFormat::events, response_);
  EventSplitter splitter_{EventSplitter::Framing::events};
  std::string data_;  // the beginning of the current event's data
  bool done_ = false;
  std::string error_;
};

}  // namespace evenkeel
