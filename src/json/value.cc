#include "evenkeel/json/value.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/json/writer.h"

namespace evenkeel {
namespace {

namespace ondemand = simdjson::ondemand;

/// simdjson has no limit of its own here, and a document of a megabyte could exhaust the stack.
constexpr std::int32_t max_depth = 512;

/// The number that the token is, of any size. Throws if it is none.
std::string_view number_in(std::string_view token) {
  while (!token.empty() && static_cast<unsigned char>(token.back()) <= ' ') token.remove_suffix(1);
  // RFC 8259, 6: [ minus ] int [ frac ] [ exp ]
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t start = at;
    while (at < token.size() && is_digit(token[at])) ++at;
    return at - start;
  };
  const auto next_is = [&](char c) { return at < token.size() && token[at] == c; };

  if (next_is('-')) ++at;
  const bool leading_zero = next_is('0');
  const std::size_t whole = digits();
  bool good = whole == 1 || (whole > 1 && !leading_zero);
  if (next_is('.')) {
    ++at;
    good = digits() > 0 && good;
  }
  if (next_is('e') || next_is('E')) {
    ++at;
    if (next_is('+') || next_is('-')) ++at;
    good = digits() > 0 && good;
  }
  if (!good || at != token.size()) throw simdjson::simdjson_error(simdjson::NUMBER_ERROR);
  return token;
}

JsonValue tree_of(ondemand::value value) {
  if (value.current_depth() > max_depth) throw simdjson::simdjson_error(simdjson::DEPTH_ERROR);
  switch (value.type()) {
    case ondemand::json_type::object: {
      JsonValue::Object members;
      for (auto field : value.get_object()) {
        std::string name(std::string_view(field.unescaped_key()));
        members.emplace_back(std::move(name), tree_of(field.value()));
      }
      return members;
    }
    case ondemand::json_type::array: {
      JsonValue::List items;
      for (auto item : value.get_array()) items.push_back(tree_of(item.value()));
      return items;
    }
    case ondemand::json_type::string: return std::string_view(value.get_string());
    case ondemand::json_type::boolean: return bool(value.get_bool());
    case ondemand::json_type::number:
      return JsonValue::Number{std::string(number_in(value.raw_json_token()))};
    case ondemand::json_type::null: break;
  }
  if (!value.is_null()) throw simdjson::simdjson_error(simdjson::N_ATOM_ERROR);
  return {};
}

template <class T, class Is>
const T& get_or_nothing(const Is& is) {
  static const T nothing{};
  const T* value = std::get_if<T>(&is);
  return value == nullptr ? nothing : *value;
}

template <class Items, class Append>
void append_items(std::string& out, char open, const Items& items, char close, Append append) {
  out += open;
  for (const auto& item : items) {
    if (&item != &items.front()) out += ',';
    append(item);
  }
  out += close;
}

}  // namespace

JsonValue::JsonValue(double number) {
  if (!std::isfinite(number)) return;
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  value_ = Number{std::string(digits.data(), end.ptr)};
}

bool JsonValue::truth() const { return get_or_nothing<bool>(value_); }

std::optional<double> JsonValue::number() const { return parse_number<double>(number_text()); }

const std::string& JsonValue::number_text() const { return get_or_nothing<Number>(value_).text; }

const std::string& JsonValue::text() const { return get_or_nothing<std::string>(value_); }

const JsonValue::List& JsonValue::items() const { return get_or_nothing<List>(value_); }

const JsonValue::Object& JsonValue::members() const { return get_or_nothing<Object>(value_); }

const JsonValue& JsonValue::operator[](std::string_view name) const {
  static const JsonValue null;
  const Object& all = members();
  const auto found = std::find_if(all.rbegin(), all.rend(),
                                  [&](const Member& member) { return member.first == name; });
  return found == all.rend() ? null : found->second;
}

void JsonValue::add(std::string_view name, JsonValue value) {
  if (is_null()) value_ = Object();
  std::get<Object>(value_).emplace_back(name, std::move(value));
}

bool JsonValue::operator==(const JsonValue& other) const { return value_ == other.value_; }

Result<JsonValue> parse_json(std::string_view json) {
  const auto refuse = [](const char* what) {
    return Error{.fault = Fault::bad_request,
                 .side = Side::client,
                 .detail = std::string("JSON decode error: ") + what};
  };
  try {
    // As the only item of a list: simdjson reads a scalar that is a whole document differently.
    std::string list;
    list.reserve(json.size() + 2 + simdjson::SIMDJSON_PADDING);
    list.append("[").append(json).append("]");
    ondemand::parser parser;
    ondemand::document document = parser.iterate(list, list.capacity());
    std::optional<JsonValue> tree;
    for (auto item : document.get_array()) {
      if (tree) return refuse("extra data after the document");
      tree = tree_of(item.value());
    }
    if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) {
      return refuse("extra data after the document");
    }
    if (!tree) return refuse("no JSON found");
    return std::move(*tree);
  } catch (const simdjson::simdjson_error& problem) {
    return refuse(problem.what());
  }
}

void append_json(std::string& out, const JsonValue& value) {
  const auto append = [&](const JsonValue& item) { append_json(out, item); };
  if (value.is_object()) {
    append_items(out, '{', value.members(), '}', [&](const JsonValue::Member& member) {
      append_json_string(out, member.first);
      out += ':';
      append(member.second);
    });
  } else if (value.is_array()) {
    append_items(out, '[', value.items(), ']', append);
  } else if (value.is_text()) {
    append_json_string(out, value.text());
  } else if (value.is_number()) {
    out += value.number_text();
  } else if (value.is_boolean()) {
    out += value.truth() ? "true" : "false";
  } else {
    out += "null";
  }
}

std::string json_text(const JsonValue& value) {
  std::string out;
  append_json(out, value);
  return out;
}

}  // namespace evenkeel
