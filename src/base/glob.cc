#include "evenkeel/base/glob.h"

#include <cstddef>

#include "evenkeel/base/ascii.h"

namespace evenkeel {

namespace {

/// True if the backslash at `at` escapes the star or backslash behind it.
bool escapes(std::string_view pattern, std::size_t at) {
  if (at + 1 >= pattern.size() || pattern[at] != '\\') return false;
  return pattern[at + 1] == '*' || pattern[at + 1] == '\\';
}

}  // namespace

bool is_glob(std::string_view pattern) {
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (escapes(pattern, at)) {
      ++at;
    } else if (pattern[at] == '*') {
      return true;
    }
  }
  return false;
}

std::string glob_of(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (c == '*' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern;
}

std::string text_of_glob(std::string_view pattern) {
  std::string text;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (escapes(pattern, at)) ++at;
    text += pattern[at];
  }
  return text;
}

bool matches_glob(std::string_view pattern, std::string_view text, LetterCase letters) {
  const auto equal = [letters](char a, char b) {
    return a == b || (letters == LetterCase::ignored && to_lower(a) == to_lower(b));
  };
  std::size_t at = 0;
  std::size_t retry_pattern = std::string_view::npos;
  std::size_t retry_text = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t skipped = escapes(pattern, at) ? 1 : 0;  // the backslash
    if (at < pattern.size() && pattern[at] == '*') {
      retry_pattern = ++at;
      retry_text = i;
    } else if (at < pattern.size() && equal(pattern[at + skipped], text[i])) {
      at += 1 + skipped;
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
