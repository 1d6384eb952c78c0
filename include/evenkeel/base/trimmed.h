// Text without the blanks around it.
#pragma once

#include <algorithm>
#include <string_view>

namespace evenkeel {

/// The text without characters of `outside` at both ends.
constexpr std::string_view trimmed(std::string_view text, std::string_view outside = " \t") {
  const std::size_t begin = std::min(text.find_first_not_of(outside), text.size());
  return text.substr(begin, text.find_last_not_of(outside) + 1 - begin);
}

}  // namespace evenkeel
