// Writes values into the line of a log: text as JSON strings, numbers, times.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "evenkeel/base/byte_vector.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/json/writer.h"

namespace evenkeel::log_text {

/// True if a byte cannot simply be copied: a control, '"' or '\\', which a JSON string must escape,
/// DEL, or a byte of a UTF-8 sequence.
constexpr bool special(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code < 0x20 || code >= 0x7f || byte == '"' || byte == '\\';
}

/// True if one of the sixteen is special.
inline bool special(ByteVector bytes) {
  const auto numbers = reinterpret_cast<SignedByteVector>(bytes);
  return any_of((numbers < 0x20)  // which those above 0x7f are too
                | (numbers == 0x7f) | (numbers == '"') | (numbers == '\\'));
}

inline bool special(std::uint64_t one, std::uint64_t other) {
  const std::uint64_t words[] = {one, other};
  ByteVector bytes;
  static_assert(sizeof bytes == sizeof words);
  std::memcpy(&bytes, words, sizeof bytes);
  return special(bytes);
}

template <class Word>
Word copy_word(char* to, const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  std::memcpy(to, &word, sizeof word);
  return word;
}

/// Copies in words, of which the last two may overlap. False if a byte is special: then `to` holds
/// only a part.
inline bool copy_plain(char* to, const char* from, std::size_t size) {
  if (size >= 16) {
    for (std::size_t i = 0; i + 16 < size; i += 16) {
      if (special(copy_word<ByteVector>(to + i, from + i))) return false;
    }
    return !special(copy_word<ByteVector>(to + size - 16, from + size - 16));
  }
  if (size >= 8) {
    const auto front = copy_word<std::uint64_t>(to, from);
    const auto back = copy_word<std::uint64_t>(to + size - 8, from + size - 8);
    return !special(front, back);
  }
  if (size >= 4) {
    const std::uint64_t front = copy_word<std::uint32_t>(to, from);
    const std::uint64_t back = copy_word<std::uint32_t>(to + size - 4, from + size - 4);
    return !special(front << 32 | back, front << 32 | back);
  }
  for (std::size_t i = 0; i < size; ++i) {
    if (special(from[i])) return false;
    to[i] = from[i];
  }
  return true;
}

template <std::size_t N>
char* put(char* at, const char (&literal)[N]) {
  std::memcpy(at, literal, N - 1);
  return at + N - 1;
}

/// Writes an escaped value of at most `capacity` bytes. Returns the end, as all `put` functions do.
inline char* put_escaped(char* at, std::string_view value, std::size_t capacity) {
  const char* const last = at + capacity;
  char* cut = at;  // the last position from which "..." still fits
  while (!value.empty()) {
    const JsonCharacter unit = json_character(value);
    if (unit.size > static_cast<std::size_t>(last - at)) return put(cut, "...");
    if (last - at >= 3) cut = at;
    std::memcpy(at, unit.bytes.data(), unit.size);
    at += unit.size;
    value.remove_prefix(unit.consumed);
  }
  return at;
}

/// Puts a string that is too long or has a special byte. Not part of `put_string`, whose frequent
/// path then saves no registers.
[[gnu::noinline]] inline char* put_escaped_string(char* at, std::string_view value,
                                                  std::size_t capacity) {
  *at++ = '"';
  if (value.size() > capacity && copy_plain(at, value.data(), capacity - 3)) {
    at = put(at + capacity - 3, "...");
  } else {
    at = put_escaped(at, value, capacity);
  }
  *at = '"';
  return at + 1;
}

/// A quoted string of at most `capacity` bytes between its quotes; null when empty.
inline char* put_string(char* at, std::string_view value, std::size_t capacity) {
  if (value.empty()) return put(at, "null");
  if (value.size() > capacity || !copy_plain(at + 1, value.data(), value.size())) [[unlikely]] {
    return put_escaped_string(at, value, capacity);
  }
  *at = '"';
  at[value.size() + 1] = '"';
  return at + value.size() + 2;
}

/// Not part of `put_milliseconds`: a line has many times, most of them zero.
[[gnu::noinline]] inline char* put_micros_as_milliseconds(char* at, std::uint64_t micros) {
  at = put_number(at, micros / 1000);
  *at = '.';
  return put_triple(at + 1, static_cast<unsigned>(micros % 1000));
}

inline char* put_milliseconds(char* at, Duration duration) {
  using Micros = std::chrono::duration<std::uint64_t, std::micro>;
  if (duration < std::chrono::microseconds(1)) return put(at, "0.000");
  return put_micros_as_milliseconds(at, std::chrono::duration_cast<Micros>(duration).count());
}

/// Appends to a text. REQUIRES: the values fit.
class Writer {
 public:
  explicit Writer(char* at) : at_(at) {}

  char* end() const { return at_; }

  template <std::size_t N>
  void text(const char (&literal)[N]) {
    at_ = put(at_, literal);
  }
  /// What needs no escaping and is short.
  void plain(std::string_view value) {
    std::memcpy(at_, value.data(), value.size());
    at_ += value.size();
  }
  void string(std::string_view value, std::size_t capacity) {
    at_ = put_string(at_, value, capacity);
  }
  void number(std::uint64_t value) { at_ = put_number(at_, value); }

 protected:
  char* at_;
};

}  // namespace evenkeel::log_text
