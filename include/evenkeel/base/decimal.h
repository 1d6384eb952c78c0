// Numbers as text, and text as numbers.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>

namespace evenkeel {

inline constexpr std::size_t max_decimal_digits = 20;  ///< of 64 bits

namespace detail {

/// "00" to "99", one after the other.
inline constexpr auto digit_pairs = [] {
  std::array<char, 200> text{};
  for (std::size_t i = 0; i < 100; ++i) {
    text[2 * i] = static_cast<char>('0' + i / 10);
    text[2 * i + 1] = static_cast<char>('0' + i % 10);
  }
  return text;
}();

}  // namespace detail

/// Writes two digits and returns the end, as all functions here do. REQUIRES: value < 100.
inline char* put_pair(char* at, unsigned value) {
  std::memcpy(at, &detail::digit_pairs[2 * static_cast<std::size_t>(value)], 2);
  return at + 2;
}

/// Writes three digits. REQUIRES: value < 1000.
inline char* put_triple(char* at, unsigned value) {
  *at = static_cast<char>('0' + value / 100);
  return put_pair(at + 1, value % 100);
}

/// Writes as many digits as the number has. Most numbers are short: statuses, lengths,
/// milliseconds.
inline char* put_number(char* at, std::uint64_t value) {
  const auto small = static_cast<unsigned>(value);
  if (value < 10) {
    *at = static_cast<char>('0' + small);
    return at + 1;
  }
  if (value < 100) return put_pair(at, small);
  if (value < 1000) return put_triple(at, small);
  if (value < 10'000) return put_pair(put_pair(at, small / 100), small % 100);
  return std::to_chars(at, at + max_decimal_digits, value).ptr;
}

/// Reads all of the text as a number, as std::from_chars does. Nothing: it is none, or too large.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped == end ? std::optional(number) : std::nullopt;
}

}  // namespace evenkeel
