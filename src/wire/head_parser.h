// Parses the heads of HTTP/1 messages line by line as they arrive. Follows RFC 9112, and is
// stricter where lenient parsers were attacked: docs/decisions.md, 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "evenkeel/base/buffer.h"
#include "evenkeel/base/result.h"
#include "evenkeel/http/fields.h"
#include "message_limit.h"

namespace evenkeel {

inline constexpr std::size_t max_method_length = 32;

struct HeadLimits {
  std::size_t bytes;  ///< of the whole head
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
  Fields fields;  ///< all of them, including framing and hop-by-hop fields
};

/// Parses one head. Call `parse` whenever bytes were added to the buffer; it continues where it
/// stopped. Never throws, and scans no byte more than a few times however they arrive.
///
/// A line that has arrived whole and looks as almost all do is taken in one pass; every other one,
/// and every line that arrives in pieces, is read the strict way, with the same result.
class HeadParser {
 public:
  enum class Kind : std::uint8_t { request, response };
  enum class Step : std::uint8_t { more, done, failed };

  HeadParser(Kind kind, const HeadLimits& limits) : kind_(kind), limits_(limits) {}

  /// Parses what was added to `buffer`. `done`: `head()` is complete and buffer.begin is behind the
  /// head. If it returns `more` with a full buffer, call `grow_buffer`.
  Step parse(ReadBuffer& buffer);
  /// Moves the buffer's bytes to the front of a large block and adjusts the views. False if they
  /// are there already: the head exceeds a large block and has failed.
  bool grow_buffer(ReadBuffer& buffer);

  Head& head() { return head_; }
  /// The fault, after `failed`.
  Fault fault() const { return fault_; }
  const char* detail() const { return detail_; }
  /// The limit, after `failed`, that the head exceeds, if that is why.
  MessageLimit exceeded_limit() const { return exceeded_limit_; }
  /// True if any byte of a message was seen.
  bool started() const { return started_; }
  /// True if, after `failed`, the request line seems to be of another protocol.
  bool other_protocol() const { return other_protocol_; }

 private:
  /// The bytes that the limits allow, and up to where memory may be read.
  struct Unread {
    const char* begin;
    const char* end;
    const char* readable;
  };

  Step fail(Fault fault, const char* detail);
  void take_usual_request_line(const Unread& unread);
  void take_usual_field_lines(const Unread& unread);
  bool parse_line(std::string_view line);
  bool parse_request_line(std::string_view line);
  bool parse_status_line(std::string_view line);
  bool parse_field_line(std::string_view line);
  bool refuse(Fault fault, const char* detail);
  bool exceed(MessageLimit limit);
  std::size_t max_start_line() const { return limits_.line + max_method_length + 12; }

  Kind kind_;
  HeadLimits limits_;
  Head head_;
  std::size_t size_ = 0;       // of the complete lines so far
  std::uint32_t scanned_ = 0;  // bytes of the incomplete line that hold no line end
  bool started_ = false;
  bool other_protocol_ = false;
  bool start_line_done_ = false;
  bool skipped_crlf_ = false;
  MessageLimit exceeded_limit_ = MessageLimit::none;
  Fault fault_ = Fault::bad_request;
  const char* detail_ = "";
};

/// Splits a `name: value` line without its line end; false if the name is not a token.
/// REQUIRES: is_field_text(line).
bool split_field_line(std::string_view line, std::string_view& name, std::string_view& value);

/// True if the text has no control character except HTAB, as field lines and values require.
bool is_field_text(std::string_view text);

bool is_token(std::string_view text);

/// The method of HTTP/2's preface, which servers take for the beginning of a connection: no request
/// has it.
inline constexpr std::string_view preface_method = "PRI";
/// True if the text is a token of bounded length.
bool is_method(std::string_view text);

/// True if the text has only characters that a request target may have.
bool is_target_text(std::string_view text);

}  // namespace evenkeel
