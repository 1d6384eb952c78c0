#include "sim/json_fields.h"

#include <cmath>
#include <limits>

namespace evenkeel {

Result<JsonValue> parse_json_object(std::string_view json) {
  auto document = parse_json(json);
  if (document && !document->is_object()) return bad_request("Input should be a valid dictionary");
  return document;
}

std::string JsonFields::text(std::string_view key) {
  const JsonValue& value = object_[key];
  if (!value.is_null() && !value.is_text()) refuse(key, "Input should be a valid string");
  return value.text();
}

bool JsonFields::truth(std::string_view key) {
  const JsonValue& value = object_[key];
  if (!value.is_null() && !value.is_boolean()) refuse(key, "Input should be a valid boolean");
  return value.truth();
}

std::optional<std::uint32_t> JsonFields::count(std::string_view key, std::uint32_t minimum) {
  return count(key, object_[key], minimum);
}

std::optional<std::uint32_t> JsonFields::count(std::string_view key, const JsonValue& value,
                                               std::uint32_t minimum) {
  constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
  if (value.is_null()) return std::nullopt;
  const double number = value.number().value_or(0.5);
  if (number != std::trunc(number)) {
    refuse(key, "Input should be a valid integer");
  } else if (number < minimum) {
    refuse(key, minimum == 0 ? "must be at least 0" : "must be at least 1");
  }
  if (!problem_.empty()) return std::nullopt;
  return number >= most ? most : static_cast<std::uint32_t>(number);
}

void JsonFields::refuse(std::string_view key, std::string_view what) {
  if (problem_.empty()) problem_.append("'").append(key).append("': ").append(what);
}

}  // namespace evenkeel
