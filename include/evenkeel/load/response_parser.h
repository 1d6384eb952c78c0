// What stands in an answer, as far as a load needs to know: tokens, the end, an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace evenkeel {

/// What an answer says of itself in `usage`.
struct ResponseUsage {
  std::optional<std::uint64_t> completion_tokens;
  std::optional<std::uint64_t> cached_tokens;  ///< of the prompt, found in a prefix cache
};

/// Reads `usage` out of a chat completion or one of its chunks; by its keys alone, for speed.
ResponseUsage parse_usage(std::string_view json);

/// The first model that an answer of GET /v1/models lists; empty: none.
std::string parse_first_model(std::string_view json);

/// Counts the tokens of a stream of server-sent events (WHATWG HTML, 9.2), cut anywhere. Lines end
/// in LF or CRLF, as every engine writes them.
class StreamParser {
 public:
  /// Takes the next bytes; returns how many events with text of the answer they completed.
  unsigned feed(std::string_view bytes);

  /// Events with text of the answer so far: a token each, unless the engine sends several at once.
  std::uint64_t content_events() const { return content_events_; }
  /// `data: [DONE]` has come: the answer is whole.
  bool done() const { return done_; }
  /// The payload of the first `data: {"error": ...}`; empty: none.
  const std::string& error() const { return error_; }
  const ResponseUsage& usage() const { return usage_; }

 private:
  bool take_line(std::string_view line);
  bool finish_event();
  bool parse_payload(std::string_view payload);  // true: it has text of the answer

  std::string line_;  // the beginning of a line whose end has not come
  std::string data_;  // the event's payload so far
  bool has_data_ = false;
  bool done_ = false;
  std::uint64_t content_events_ = 0;
  std::string error_;
  ResponseUsage usage_;
};

}  // namespace evenkeel
