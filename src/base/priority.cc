#include "evenkeel/base/priority.h"

#include <algorithm>

namespace evenkeel {
namespace {

bool equals(std::string_view word, std::string_view name) {
  return std::equal(
      word.begin(), word.end(), name.begin(), name.end(), [](char given, char wanted) {
        return given == wanted || (given >= 'A' && given <= 'Z' && given - 'A' + 'a' == wanted);
      });
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
