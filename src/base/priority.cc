#include "evenkeel/base/priority.h"

#include <algorithm>

#include "evenkeel/base/ascii.h"

namespace evenkeel {
namespace {

bool equals(std::string_view word, std::string_view name) {
  return std::ranges::equal(word, name, {}, to_lower);
}

}  // namespace

const char* to_string(Priority priority) {
  switch (priority) {
    case Priority::interactive: return "interactive";
    case Priority::standard: return "standard";
    case Priority::batch: return "batch";
  }
  return "";
}

std::optional<Priority> parse_priority(std::string_view word) {
  for (const auto each : {Priority::interactive, Priority::standard, Priority::batch}) {
    if (equals(word, to_string(each))) return each;
  }
  return std::nullopt;
}

}  // namespace evenkeel
