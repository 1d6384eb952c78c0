#include "net/unique_names.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace evenkeel {

bool has_unique_names(const JsonValue& document) {
  std::vector<std::string_view> names;
  names.reserve(document.members().size());
  for (const auto& [name, value] : document.members()) names.push_back(name);
  std::ranges::sort(names);
  if (std::ranges::adjacent_find(names) != names.end()) return false;
  return std::ranges::all_of(document.members(),
                             [](const auto& each) { return has_unique_names(each.second); }) &&
         std::ranges::all_of(document.items(), has_unique_names);
}

}  // namespace evenkeel
