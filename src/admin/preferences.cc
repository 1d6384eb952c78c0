#include "admin/preferences.h"

#include <algorithm>
#include <charconv>

#include "evenkeel/base/ascii.h"
#include "evenkeel/http/fields.h"

namespace evenkeel {
namespace {

/// The part up to the next `separator`, which is taken off `text` with it.
std::string_view next_part(std::string_view& text, char separator) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return trimmed(part);
}

/// A weight that cannot be read counts as none.
double weight_of(std::string_view text) {
  double weight = 0;
  std::from_chars(text.data(), text.data() + text.size(), weight, std::chars_format::fixed);
  return weight > 0 ? std::min(weight, 1.0) : 0;  // it may not be a number
}

}  // namespace

std::optional<std::string_view> Preference::parameter(std::string_view name) const {
  std::string_view rest = parameters;
  while (!rest.empty()) {
    std::string_view text = next_part(rest, ';');
    if (!equals_ignore_case(next_part(text, '='), name)) continue;
    text = trimmed(text);
    if (text.size() > 1 && text.front() == '"' && text.back() == '"')
      text = text.substr(1, text.size() - 2);
    return text;
  }
  return std::nullopt;
}

std::optional<Preference> next_preference(std::string_view& field) {
  while (!field.empty()) {
    Preference preference;
    preference.parameters = next_part(field, ',');
    preference.value = next_part(preference.parameters, ';');
    if (preference.value.empty()) continue;
    if (const auto weight = preference.parameter("q")) preference.weight = weight_of(*weight);
    return preference;
  }
  return std::nullopt;
}

}  // namespace evenkeel
