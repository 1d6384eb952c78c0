#include "evenkeel/config/selector.h"

#include <algorithm>

#include "evenkeel/base/ascii.h"

namespace evenkeel {

std::string selector_of(const BackendLabels& labels) {
  std::string text;
  for (const auto& [label, value] : labels) {
    if (!text.empty()) text += ',';
    text.append(label).append("=").append(value);
  }
  return text;
}

std::optional<BackendLabels> labels_of(std::string_view selector) {
  BackendLabels labels;
  while (true) {
    const std::size_t end = std::min(selector.find(','), selector.size());
    const std::string_view term = selector.substr(0, end);
    const std::size_t equals = term.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view label = trimmed(term.substr(0, equals), " ");
    const std::string_view value = trimmed(term.substr(equals + 1), " ");
    if (label.empty() || value.empty()) return std::nullopt;
    if (!labels.emplace(label, value).second) return std::nullopt;
    if (end == selector.size()) return labels;
    selector.remove_prefix(end + 1);
  }
}

bool has_labels(const BackendLabels& labels, const BackendLabels& wanted) {
  return std::ranges::all_of(wanted, [&](const auto& each) {
    const auto found = labels.find(each.first);
    return found != labels.end() && found->second == each.second;
  });
}

}  // namespace evenkeel
