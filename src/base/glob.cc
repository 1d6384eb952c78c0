#include "evenkeel/base/glob.h"

#include <cstddef>

namespace evenkeel {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

}  // namespace

bool matches_glob(std::string_view pattern, std::string_view text, LetterCase letters) {
  const auto equal = [letters](char a, char b) {
    return a == b || (letters == LetterCase::ignored && lower(a) == lower(b));
  };
  std::size_t at = 0;
  std::size_t retry_pattern = std::string_view::npos;
  std::size_t retry_text = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (at < pattern.size() && pattern[at] == '*') {
      retry_pattern = ++at;
      retry_text = i;
    } else if (at < pattern.size() && equal(pattern[at], text[i])) {
      ++at;
      ++i;
    } else if (retry_pattern != std::string_view::npos) {
      // Only the last '*' is ever tried again.
      at = retry_pattern;
      i = ++retry_text;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

}  // namespace evenkeel
