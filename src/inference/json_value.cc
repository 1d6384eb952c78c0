#include "evenkeel/inference/json_value.h"

#include <simdjson.h>

namespace evenkeel {
namespace {

/// Documents are nested a few levels deep; simdjson itself stops at 1024.
JsonValue tree_of(simdjson::dom::element element) {
  switch (element.type()) {
    case simdjson::dom::element_type::OBJECT: {
      std::vector<JsonValue::Member> members;
      for (const auto field : simdjson::dom::object(element)) {
        members.emplace_back(std::string(field.key), tree_of(field.value));
      }
      return JsonValue(std::move(members));
    }
    case simdjson::dom::element_type::ARRAY: {
      std::vector<JsonValue> items;
      for (const auto item : simdjson::dom::array(element)) items.push_back(tree_of(item));
      return JsonValue(std::move(items));
    }
    case simdjson::dom::element_type::STRING: return JsonValue(std::string(element.get_c_str()));
    case simdjson::dom::element_type::BOOL: return JsonValue(bool(element));
    case simdjson::dom::element_type::NULL_VALUE: return {};
    default: return JsonValue(double(element));
  }
}

template <class T, class Is>
const T& get_or_nothing(const Is& is) {
  static const T nothing{};
  const T* value = std::get_if<T>(&is);
  return value == nullptr ? nothing : *value;
}

}  // namespace

bool JsonValue::truth() const { return get_or_nothing<bool>(value_); }

std::optional<double> JsonValue::number() const {
  const double* value = std::get_if<double>(&value_);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

const std::string& JsonValue::text() const { return get_or_nothing<std::string>(value_); }

const std::vector<JsonValue>& JsonValue::items() const {
  return get_or_nothing<std::vector<JsonValue>>(value_);
}

const std::vector<JsonValue::Member>& JsonValue::members() const {
  return get_or_nothing<std::vector<Member>>(value_);
}

const JsonValue& JsonValue::operator[](std::string_view name) const {
  static const JsonValue null;
  for (const auto& [key, value] : members()) {
    if (key == name) return value;
  }
  return null;
}

Result<JsonValue> parse_json(std::string_view json) {
  try {
    simdjson::dom::parser parser;
    return tree_of(parser.parse(json.data(), json.size()));
  } catch (const simdjson::simdjson_error& problem) {
    return Error{.fault = Fault::bad_request, .side = Side::client, .detail = problem.what()};
  }
}

}  // namespace evenkeel
