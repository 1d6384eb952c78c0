// The query of a request target.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "evenkeel/base/path.h"

namespace evenkeel {

/// The query of a target with its question mark; empty: it has none.
inline std::string_view query_of(std::string_view target) {
  const std::size_t mark = target.find('?');
  return mark == std::string_view::npos ? std::string_view() : target.substr(mark);
}

/// True if `matches(name, value)` holds for a parameter of the target's query, both decoded as
/// forms are. A parameter without `=` has an empty value.
template <class Matches>
bool any_parameter(std::string_view target, const Matches& matches) {
  const auto decoded = [](std::string_view text) {
    std::string spaced(text);
    std::ranges::replace(spaced, '+', ' ');
    return percent_decoded(spaced);
  };
  std::string_view rest = query_of(target);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(pair.size());
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view value = pair.substr(std::min(equals + 1, pair.size()));
    if (!pair.empty() && matches(decoded(pair.substr(0, equals)), decoded(value))) return true;
  }
  return false;
}

}  // namespace evenkeel
