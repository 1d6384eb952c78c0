#include "evenkeel/http/preferences.h"

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

double weight_of_coding(std::string_view accept_encoding, std::string_view coding) {
  double of_others = 0;
  while (const auto each = next_preference(accept_encoding)) {
    std::string_view name = each->value;
    if (equals_ignore_case(name, "x-gzip")) name = "gzip";  // RFC 9110, section 8.4.1.3
    if (equals_ignore_case(name, coding)) return each->weight;
    if (name == "*") of_others = each->weight;
  }
  return of_others;
}

double weight_of_named_type(std::string_view accept, std::string_view type) {
  const std::string_view family = type.substr(0, type.find('/') + 1);
  double of_family = 0;
  while (const auto each = next_preference(accept)) {
    if (equals_ignore_case(each->value, type)) return each->weight;
    if (each->value.ends_with("/*") &&
        equals_ignore_case(each->value.substr(0, each->value.size() - 1), family))
      of_family = each->weight;
  }
  return of_family;
}

}  // namespace evenkeel
