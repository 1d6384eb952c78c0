// Heads of HTTP/1 messages: a strict scanner that works line by line, as the lines arrive.
// RFC 9112, and stricter where laxness has been an attack: docs/decisions/0003-strict-http1.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "evenkeel/base/buffer.h"
#include "evenkeel/base/result.h"
#include "evenkeel/http/fields.h"

namespace evenkeel {

struct HeadLimits {
  std::size_t bytes;  ///< of the head in all
  std::size_t fields;
  std::size_t line;  ///< of the request target
};

/// The parsed head of a request or a response. Views point into the buffer that was parsed.
struct Head {
  std::string_view method;         ///< requests
  std::string_view target;         ///< requests
  int status = 0;                  ///< responses
  std::string_view reason_phrase;  ///< responses
  int minor_version = 1;
  Fields fields;  ///< all of them, framing and hop-by-hop too
};

/// Parses one head. Feed it the buffer each time bytes were added; it goes on where it stopped.
/// No byte sequence makes it throw, or look at a byte twice.
class HeadParser {
 public:
  enum class Kind : std::uint8_t { request, response };
  enum class Step : std::uint8_t { more, done, failed };

  HeadParser(Kind kind, const HeadLimits& limits) : kind_(kind), limits_(limits) {}

  /// Looks at what was added to `buffer`. `done`: `head()` is filled and buffer.begin stands behind
  /// the head. `more` with a full buffer: `grow_buffer`.
  Step parse(ReadBuffer& buffer);
  /// Moves the buffer's bytes to the front of a large block and keeps the views right. False, and
  /// the head failed, when that is where they are: no head is longer than a large block.
  bool grow_buffer(ReadBuffer& buffer);

  Head& head() { return head_; }
  /// After `failed`.
  Fault fault() const { return fault_; }
  const char* detail() const { return detail_; }
  /// Whether any byte of a message was seen.
  bool started() const { return started_; }
  /// After `failed`: the request line names another protocol, or what looks like it.
  bool other_protocol() const { return other_protocol_; }

 private:
  Step fail(Fault fault, const char* detail);
  bool parse_request_line(std::string_view line);
  bool parse_status_line(std::string_view line);
  bool parse_field_line(std::string_view line);
  bool refuse(Fault fault, const char* detail);

  Kind kind_;
  HeadLimits limits_;
  Head head_;
  std::size_t size_ = 0;       // of the complete lines so far
  std::uint32_t scanned_ = 0;  // behind buffer.begin: how far no line end was found
  bool started_ = false;
  bool other_protocol_ = false;
  bool start_line_done_ = false;
  bool skipped_crlf_ = false;
  Fault fault_ = Fault::bad_request;
  const char* detail_ = "";
};

/// Splits a `name: value` line without its line end; false if the name is none.
/// REQUIRES: is_field_text(line).
bool split_field_line(std::string_view line, std::string_view& name, std::string_view& value);

/// Holds no control character but HTAB: what a field line, and so a field value, may be.
bool is_field_text(std::string_view text);

bool is_token(std::string_view text);

/// Holds only what a request target may hold.
bool is_target_text(std::string_view text);

}  // namespace evenkeel
