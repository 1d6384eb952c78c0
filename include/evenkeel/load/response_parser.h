// Reads from a response what a load reports: tokens, the end, errors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/line_cutter.h"

namespace evenkeel {

/// The `usage` of a response.
struct ResponseUsage {
  std::optional<std::uint64_t> completion_tokens;
  std::optional<std::uint64_t> cached_tokens;  ///< of the prompt, found in a prefix cache
};

/// Reads `usage` from a chat completion or one of its chunks. Searches for the keys, for speed.
ResponseUsage parse_usage(std::string_view json);

/// The first model in a response to GET /v1/models; empty: none.
std::string parse_first_model(std::string_view json);

/// Counts the tokens of a stream of server-sent events (WHATWG HTML, 9.2) that arrives in pieces.
/// Lines end in LF or CRLF, as every engine writes them.
class StreamParser {
 public:
  /// Reads the next bytes. Returns how many events with generated text they completed.
  unsigned feed(std::string_view bytes);

  /// Events with generated text so far: one token each, unless the engine sends several at once.
  std::uint64_t content_events() const { return content_events_; }
  /// True if `data: [DONE]` was read: the stream is complete.
  bool done() const { return done_; }
  /// The payload of the first `data: {"error": ...}`; empty: none.
  const std::string& error() const { return error_; }
  const ResponseUsage& usage() const { return usage_; }

 private:
  bool take_line(std::string_view line);
  bool finish_event();
  bool parse_payload(std::string_view payload);  // true: it has generated text

  LineCutter cutter_;
  std::string line_;  // an incomplete line
  std::string data_;  // the payload of an incomplete event
  bool has_data_ = false;
  bool done_ = false;
  std::uint64_t content_events_ = 0;
  std::string error_;
  ResponseUsage usage_;
};

}  // namespace evenkeel
