// Letters, digits and blanks of ASCII, whatever the locale.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace evenkeel {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_letter(char c) { return is_upper(static_cast<char>(c & ~0x20)); }
constexpr bool is_letter_or_digit(char c) { return is_letter(c) || is_digit(c); }
/// True for what a token has (RFC 9110, section 5.6.2), such as the name of a header field.
constexpr bool is_token_char(char c) {
  return is_letter_or_digit(c) ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

constexpr char to_lower(char c) { return is_upper(c) ? static_cast<char>(c | 0x20) : c; }
constexpr char to_upper(char c) { return is_letter(c) ? static_cast<char>(c & ~0x20) : c; }

/// The text with its letters in lower case.
inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = to_lower(c);
  return lower;
}

/// The text without the blanks at its ends.
inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t") {
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

}  // namespace evenkeel
