#include "http2_priority.h"

#include <algorithm>
#include <cstddef>

#include "evenkeel/base/ascii.h"

namespace evenkeel {

void Http2PriorityField::add(std::string_view value) {
  given_ = true;
  for (std::size_t at = 0; at <= value.size();) {
    const std::size_t comma = std::min(value.find(',', at), value.size());
    std::string_view member = trimmed(value.substr(at, comma - at));
    at = comma + 1;
    member = trimmed(member.substr(0, member.find(';')));  // without parameters
    if (member.starts_with("u=")) {
      const bool digit = member.size() == 3 && member[2] >= '0' && member[2] <= '7';
      if (digit) priority_.urgency = static_cast<std::uint32_t>(member[2] - '0');
      broken_ |= !digit;
    } else if (member == "i" || member == "i=?1") {
      priority_.incremental = 1;
    } else if (member == "i=?0") {
      priority_.incremental = 0;
    } else if (member.starts_with("i=")) {
      broken_ = true;
    }
  }
}

std::optional<Http2PriorityField::Priority> Http2PriorityField::value() const {
  if (!given_ || broken_) return std::nullopt;
  return priority_;
}

}  // namespace evenkeel
