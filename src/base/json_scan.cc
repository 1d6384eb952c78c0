#include "evenkeel/base/json_scan.h"

#include <charconv>

namespace evenkeel {

std::string_view find_json_value(std::string_view json, std::string_view key, std::size_t& from) {
  for (;;) {
    const std::size_t found = json.find(key, from);
    if (found == std::string_view::npos) return {};
    from = found + key.size();
    const std::size_t colon = json.find_first_not_of(" \t", from);
    if (colon == std::string_view::npos || json[colon] != ':') continue;
    const std::size_t value = json.find_first_not_of(" \t", colon + 1);
    if (value == std::string_view::npos) return {};
    return json.substr(value);
  }
}

std::optional<std::uint64_t> find_json_uint(std::string_view json, std::string_view key) {
  std::size_t from = 0;
  const std::string_view value = find_json_value(json, key, from);
  std::uint64_t count = 0;
  const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (problem != std::errc() || end == value.data()) return std::nullopt;
  return count;
}

std::string find_json_string(std::string_view json, std::string_view key) {
  std::size_t from = 0;
  std::string_view value = find_json_value(json, key, from);
  std::string text;
  if (!value.starts_with('"')) return text;
  value.remove_prefix(1);
  for (std::size_t i = 0; i < value.size() && value[i] != '"'; ++i) {
    if (value[i] == '\\' && i + 1 < value.size()) ++i;
    text += value[i];
  }
  return text;
}

}  // namespace evenkeel
