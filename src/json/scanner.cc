#include "evenkeel/json/scanner.h"

#include <algorithm>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/hex.h"

namespace evenkeel::json {
namespace {

bool is_space(char c) {
  return c <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t');  // most are not
}

bool is_simple_escape(char c) {
  switch (c) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't': return true;
    default: return false;
  }
}

constexpr std::size_t max_short_string = 64;
constexpr std::uint8_t unicode_escape_size = 6;  // \uXXXX

std::uint64_t utf8_size(int code) { return code < 0x80 ? 1 : code < 0x800 ? 2 : 3; }

}  // namespace

void Scanner::consume(std::string_view& bytes, std::size_t count) {
  bytes.remove_prefix(count);
  offset_ += count;
}

Token Scanner::fail(const char* problem) {
  state_ = State::failed;
  problem_ = problem;
  return Token::malformed;
}

Token Scanner::next(std::string_view& bytes) {
  for (;;) {
    Token token = Token::more;
    switch (state_) {
      case State::string: return scan_string(bytes);
      case State::number: return scan_number(bytes);
      case State::literal: return scan_literal(bytes);
      case State::failed: return Token::malformed;
      default: token = scan_structure(bytes);
    }
    if (token != Token::more || bytes.empty()) return token;
  }
}

// Returns `more` if the bytes are used up, or if a number or a literal has begun.
Token Scanner::scan_structure(std::string_view& bytes) {
  while (!bytes.empty()) {
    const char c = bytes.front();
    if (is_space(c)) {
      consume(bytes, 1);
      continue;
    }
    switch (state_) {
      case State::first_item:
        if (c == ']') return close(false, bytes);
        return begin_value(bytes);
      case State::value: return begin_value(bytes);
      case State::first_key:
        if (c == '}') return close(true, bytes);
        [[fallthrough]];
      case State::key:
        if (c != '"') return fail("a key in quotes expected");
        begin_string(true, bytes);
        return scan_string(bytes);
      case State::colon:
        if (c != ':') return fail("a colon expected");
        state_ = State::value;
        consume(bytes, 1);
        break;
      default:
        if (depth_ == 0) return fail("bytes after the document");
        const bool in_object = is_object_[depth_ - 1];
        if (c == (in_object ? '}' : ']')) return close(in_object, bytes);
        if (c != ',')
          return fail(in_object ? "a comma or '}' expected" : "a comma or ']' expected");
        state_ = in_object ? State::key : State::value;
        consume(bytes, 1);
    }
  }
  return Token::more;
}

Token Scanner::begin_value(std::string_view& bytes) {
  const char c = bytes.front();
  switch (c) {
    case '{': return open(true, bytes);
    case '[': return open(false, bytes);
    case '"': begin_string(false, bytes); return scan_string(bytes);
    case 't': return begin_literal("rue", Token::literal_true, bytes);
    case 'f': return begin_literal("alse", Token::literal_false, bytes);
    case 'n': return begin_literal("ull", Token::literal_null, bytes);
    default: return begin_number(c, bytes);
  }
}

Token Scanner::open(bool object, std::string_view& bytes) {
  if (depth_ == max_depth) return fail("nested too deeply");
  is_object_[depth_++] = object;
  state_ = object ? State::first_key : State::first_item;
  consume(bytes, 1);
  return object ? Token::object_begin : Token::array_begin;
}

Token Scanner::close(bool object, std::string_view& bytes) {
  --depth_;
  state_ = State::next;
  consume(bytes, 1);
  return object ? Token::object_end : Token::array_end;
}

bool Scanner::finish() {
  switch (state_) {
    case State::failed: return false;
    case State::number:
      if (depth_ == 0 && (digits_ == Digits::zero || digits_ == Digits::whole ||
                          digits_ == Digits::fraction || digits_ == Digits::exponent)) {
        return true;
      }
      break;
    case State::next:
      if (depth_ == 0) return true;
      break;
    case State::string:
      if (!check_utf8({}, true)) return false;
      break;
    default: break;
  }
  fail(offset_ == 0 ? "the body is empty" : "the body ends too early");
  return false;
}

// ---- numbers and literals

Token Scanner::begin_number(char first, std::string_view& bytes) {
  if (first != '-' && !is_digit(first)) return fail("a value expected");
  value_begin_ = offset_;
  number_ = {.negative = first == '-'};
  if (first != '-') add_digit(number_, first);
  digits_ = first == '-' ? Digits::minus : first == '0' ? Digits::zero : Digits::whole;
  state_ = State::number;
  number_begin_ = bytes.data();
  kept_number_bytes_ = 0;
  consume(bytes, 1);
  if (bytes.empty()) [[unlikely]]
    keep_number(bytes.data());
  return Token::more;
}

// The piece ends at `end`, and the number does not.
void Scanner::keep_number(const char* end) {
  const auto size = static_cast<std::size_t>(end - number_begin_);
  const std::size_t kept = std::min(kept_number_.size(), kept_number_bytes_);
  std::copy_n(number_begin_, std::min(size, kept_number_.size() - kept), &kept_number_[0] + kept);
  kept_number_bytes_ += size;
}

std::string_view Scanner::number_text(const char* end) {
  const auto size = static_cast<std::size_t>(end - number_begin_);
  if (kept_number_bytes_ + size > max_number) return {};
  if (kept_number_bytes_ == 0) return {number_begin_, size};
  keep_number(end);
  return {kept_number_.data(), kept_number_bytes_};
}

// True if `c` belongs to the number. If not, `digits_` stays.
bool Scanner::continue_number(char c) {
  const auto to = [&](Digits next) {
    digits_ = next;
    return true;
  };
  const bool exponent_follows = c == 'e' || c == 'E';
  if (exponent_follows || c == '.') number_.integer = false;
  switch (digits_) {
    case Digits::minus:
      if (!is_digit(c)) return false;
      add_digit(number_, c);
      return to(c == '0' ? Digits::zero : Digits::whole);
    case Digits::whole:
      if (is_digit(c)) {
        add_digit(number_, c);
        return true;
      }
      [[fallthrough]];
    case Digits::zero:
      if (c == '.') return to(Digits::point);
      return exponent_follows && to(Digits::e);
    case Digits::point: return is_digit(c) && to(Digits::fraction);
    case Digits::fraction: return is_digit(c) || (exponent_follows && to(Digits::e));
    case Digits::e:
      if (c == '+' || c == '-') return to(Digits::sign);
      [[fallthrough]];
    case Digits::sign:
    case Digits::exponent: return is_digit(c) && to(Digits::exponent);
  }
  return false;
}

Token Scanner::scan_number(std::string_view& bytes) {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  if (kept_number_bytes_ > 0) [[unlikely]]
    number_begin_ = at;
  while (at != end && continue_number(*at)) {
    ++at;
    // Most of a number is digits; which ones matters only before the point.
    if (digits_ == Digits::whole) {
      for (; at != end && is_digit(*at); ++at) add_digit(number_, *at);
    } else if (digits_ == Digits::fraction) {
      while (at != end && is_digit(*at)) ++at;
    }
  }
  consume(bytes, static_cast<std::size_t>(at - bytes.data()));
  if (at == end) [[unlikely]] {
    keep_number(end);
    return Token::more;
  }
  if (!number_.integer) text_ = number_text(at);
  switch (digits_) {
    case Digits::zero:
    case Digits::whole:
    case Digits::fraction:
    case Digits::exponent: state_ = State::next; return Token::number;
    default: return fail("a digit expected");
  }
}

Token Scanner::begin_literal(const char* rest, Token token, std::string_view& bytes) {
  value_begin_ = offset_;
  literal_rest_ = rest;
  literal_token_ = token;
  state_ = State::literal;
  consume(bytes, 1);
  return Token::more;
}

Token Scanner::scan_literal(std::string_view& bytes) {
  for (; *literal_rest_ != '\0'; ++literal_rest_) {
    if (bytes.empty()) return Token::more;
    if (bytes.front() != *literal_rest_) return fail("true, false or null expected");
    consume(bytes, 1);
  }
  state_ = State::next;
  return literal_token_;
}

// ---- strings

void Scanner::begin_string(bool key, std::string_view& bytes) {
  value_begin_ = offset_;
  in_key_ = key;
  whole_ = true;
  escaped_ = false;
  non_ascii_ = false;
  raw_bytes_ = 0;
  escape_bytes_ = 0;
  high_surrogate_end_ = 0;
  state_ = State::string;
  consume(bytes, 1);
}

// True if the string is short and nothing in it needs a look, as in most keys. Leaves all others.
bool Scanner::scan_short_string(std::string_view& bytes) {
  if (raw_bytes_ > 0 || escape_size_ > 0) return false;
  const char* const begin = bytes.data();
  const char* const end = begin + std::min(bytes.size(), max_short_string);
  bool non_ascii = false;
  const char* const stop = find_special(begin, end, non_ascii);
  if (stop == end || *stop != '"' || non_ascii) return false;
  text_ = {begin, static_cast<std::size_t>(stop - begin)};
  raw_bytes_ = text_.size();
  consume(bytes, text_.size() + 1);
  state_ = in_key_ ? State::colon : State::next;
  return true;
}

Token Scanner::scan_string(std::string_view& bytes) {
  if (scan_short_string(bytes)) return in_key_ ? Token::key : Token::text;
  if (raw_bytes_ > 0) whole_ = false;
  const char* const begin = bytes.data();
  const char* const end = begin + bytes.size();
  const char* const stop = scan_text(begin, end);
  text_ = bytes.substr(0, static_cast<std::size_t>(stop - begin));
  raw_bytes_ += text_.size();

  const bool ended = stop != end;
  const bool well_formed = check_utf8(text_, ended);
  non_ascii_ = false;
  if (!well_formed) return Token::malformed;
  consume(bytes, text_.size());
  if (!ended) return text_.empty() ? Token::more : in_key_ ? Token::key_part : Token::text_part;
  if (escape_size_ > 0) return fail("invalid escape in a string");
  if (*stop != '"') return fail("control character in a string");
  consume(bytes, 1);
  state_ = in_key_ ? State::colon : State::next;
  return in_key_ ? Token::key : Token::text;
}

// Returns where the text ends: at its quote, at a byte that must not be there, or at `end`.
const char* Scanner::scan_text(const char* at, const char* end) {
  const char* const begin = at;
  const auto offset = [&] { return offset_ + static_cast<std::uint64_t>(at - begin); };
  while (at != end) {
    if (escape_size_ > 0) {
      if (!continue_escape(*at, offset())) return at;
      ++at;
      continue;
    }
    // Text outside ASCII may be all escapes.
    if (*at != '\\') at = find_special(at, end, non_ascii_);
    if (at == end || *at != '\\') return at;
    escaped_ = true;
    at = scan_escape(at, end, offset());
  }
  return at;
}

// Passes over an escape that is not cut, in a few instructions. Leaves others to
// continue_escape. REQUIRES: a backslash at `at`.
const char* Scanner::scan_escape(const char* at, const char* end, std::uint64_t offset) {
  if (end - at >= 2 && is_simple_escape(at[1])) {
    ++escape_bytes_;
    return at + 2;
  }
  if (end - at >= unicode_escape_size && at[1] == 'u') {
    const int high = hex_value(at[2]) << 4 | hex_value(at[3]);
    const int low = hex_value(at[4]) << 4 | hex_value(at[5]);
    if (high >= 0 && low >= 0) {
      escape_code_ = high << 8 | low;
      end_unicode_escape(offset + unicode_escape_size);
      return at + unicode_escape_size;
    }
  }
  escape_size_ = 1;
  return at + 1;
}

// True if `c`, which is at `offset`, belongs to the escape.
bool Scanner::continue_escape(char c, std::uint64_t offset) {
  if (escape_size_ == 1) {
    if (c == 'u') {
      escape_size_ = 2;
      escape_code_ = 0;
      return true;
    }
    if (!is_simple_escape(c)) return false;
    escape_size_ = 0;
    ++escape_bytes_;
    return true;
  }
  const int digit = hex_value(c);
  if (digit < 0) return false;
  escape_code_ = escape_code_ << 4 | digit;
  if (++escape_size_ == unicode_escape_size) {
    escape_size_ = 0;
    end_unicode_escape(offset + 1);
  }
  return true;
}

void Scanner::end_unicode_escape(std::uint64_t escape_end) {
  const bool low_surrogate = escape_code_ >= 0xdc00 && escape_code_ < 0xe000;
  if (low_surrogate && escape_end - unicode_escape_size == high_surrogate_end_) {
    // Twelve bytes for four, of which the first half has counted six for three.
    escape_bytes_ += unicode_escape_size - 1;
    return;
  }
  escape_bytes_ += unicode_escape_size - utf8_size(escape_code_);
  if (escape_code_ >= 0xd800 && escape_code_ < 0xdc00) high_surrogate_end_ = escape_end;
}

bool Scanner::check_utf8(std::string_view piece, bool ended) {
  if (!non_ascii_ && !utf8_.pending()) return true;
  const bool well_formed = utf8_.add(piece, offset_) && (!ended || utf8_.finish());
  if (well_formed) return true;
  offset_ = utf8_.bad_at();
  fail("text is not UTF-8");
  return false;
}

}  // namespace evenkeel::json
