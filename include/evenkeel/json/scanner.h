// Splits JSON into tokens while its bytes arrive, and checks it as RFC 8259 defines it.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "evenkeel/json/text.h"

namespace evenkeel::json {

enum class Token : std::uint8_t {
  more,       ///< the bytes are used up
  malformed,  ///< `problem` and `offset` say what is wrong and where; nothing more can be read
  object_begin,
  object_end,
  array_begin,
  array_end,
  key_part,   ///< `text` is a part of a key; more of it follows
  key,        ///< a key ends; `text` is its last part
  text_part,  ///< of a string that is a value
  text,
  number,
  literal_true,
  literal_false,
  literal_null,
};

struct Number {
  bool integer = true;  ///< written without fraction and exponent
  bool negative = false;
  std::uint64_t magnitude = 0;  ///< of an integer, at most 2^64 - 1
};

/// Appends a digit to the magnitude.
inline void add_digit(Number& number, char c) {
  constexpr std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
  const auto digit = static_cast<std::uint64_t>(c - '0');
  if (number.magnitude <= (max - 9) / 10) [[likely]] {
    number.magnitude = number.magnitude * 10 + digit;
    return;
  }
  const bool fits = number.magnitude <= (max - digit) / 10;
  number.magnitude = fits ? number.magnitude * 10 + digit : max;
}

/// Bytes may be cut anywhere. Holds no text; strings are handed on as they were sent, with their
/// escapes.
class Scanner {
 public:
  static constexpr std::size_t max_depth = 512;
  static constexpr std::size_t max_number = 48;

  /// Removes the bytes of the next token from the front of `bytes`. A number is returned when a
  /// byte follows it.
  Token next(std::string_view& bytes);
  /// True if the document, which ends here, is complete.
  bool finish();

  /// Bytes read, or where the error is.
  std::uint64_t offset() const { return offset_; }
  /// The first byte of the last value that is not a container.
  std::uint64_t value_begin() const { return value_begin_; }
  /// Objects and arrays that are open.
  std::size_t depth() const { return depth_; }
  const char* problem() const { return problem_; }

  /// The text of a key, a string, or a number that is no integer; valid as long as the bytes that
  /// were read.
  /// Empty for a number of more than `max_number` bytes.
  std::string_view text() const { return text_; }
  /// True if there was no earlier part.
  bool whole() const { return whole_; }
  bool escaped() const { return escaped_; }
  /// Size in UTF-8 of the string so far, without its quotes and escapes. Half a surrogate pair
  /// counts three bytes.
  std::uint64_t decoded_bytes() const { return raw_bytes_ - escape_bytes_; }
  const Number& number() const { return number_; }

 private:
  enum class State : std::uint8_t {
    value,       // a value has to come
    first_item,  // a value, or the end of an empty array
    first_key,   // a key, or the end of an empty object
    key,
    colon,
    next,  // a comma or the end of the container; outside of all: nothing
    string,
    number,
    literal,
    failed,
  };
  enum class Digits : std::uint8_t { minus, zero, whole, point, fraction, e, sign, exponent };

  Token scan_structure(std::string_view& bytes);
  Token begin_value(std::string_view& bytes);
  Token open(bool object, std::string_view& bytes);
  Token close(bool object, std::string_view& bytes);
  Token begin_number(char first, std::string_view& bytes);
  Token begin_literal(const char* rest, Token token, std::string_view& bytes);
  void begin_string(bool key, std::string_view& bytes);
  bool scan_short_string(std::string_view& bytes);
  Token scan_string(std::string_view& bytes);
  const char* scan_text(const char* at, const char* end);
  const char* scan_escape(const char* at, const char* end, std::uint64_t offset);
  bool continue_escape(char c, std::uint64_t offset);
  void end_unicode_escape(std::uint64_t escape_end);
  bool check_utf8(std::string_view piece, bool ended);
  Token scan_number(std::string_view& bytes);
  void keep_number(const char* end);
  std::string_view number_text(const char* end);
  bool continue_number(char c);
  Token scan_literal(std::string_view& bytes);
  void consume(std::string_view& bytes, std::size_t count);
  Token fail(const char* problem);

  State state_ = State::value;
  bool in_key_ = false;
  bool whole_ = true;
  bool escaped_ = false;
  std::uint8_t escape_size_ = 0;  // bytes of an escape that is cut: the backslash, u, digits
  Digits digits_ = Digits::zero;
  Token literal_token_ = Token::literal_null;
  const char* literal_rest_ = nullptr;
  const char* problem_ = nullptr;
  std::size_t depth_ = 0;
  std::bitset<max_depth> is_object_;  // of each open container
  std::uint64_t offset_ = 0;
  std::uint64_t value_begin_ = 0;
  std::string_view text_;
  std::uint64_t raw_bytes_ = 0;
  std::uint64_t escape_bytes_ = 0;  // what escapes take more than the bytes that they stand for
  std::uint64_t high_surrogate_end_ = 0;  // where an escape of half a pair ended
  int escape_code_ = 0;
  bool non_ascii_ = false;
  Utf8Check utf8_;
  Number number_;
  const char* number_begin_ = nullptr;  // in the piece that is read
  // What came in earlier pieces.
  std::array<char, max_number> kept_number_;  // NOLINT(*-member-init): written before it is read
  std::size_t kept_number_bytes_ = 0;         // more than fits: it is too long
};

}  // namespace evenkeel::json
