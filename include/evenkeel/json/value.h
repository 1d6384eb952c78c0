// A JSON document as a tree.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "evenkeel/base/result.h"

namespace evenkeel {

/// A value, which remembers how a number was written. An accessor of another type returns an empty
/// result: null, "", no items.
class JsonValue {
 public:
  using Member = std::pair<std::string, JsonValue>;
  using Object = std::vector<Member>;
  using List = std::vector<JsonValue>;
  /// A number as JSON writes it.
  struct Number {
    std::string text;
    bool operator==(const Number&) const = default;
  };

  JsonValue() = default;  ///< null
  JsonValue(std::nullptr_t) {}
  JsonValue(std::same_as<bool> auto truth) : value_(truth) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  JsonValue(T number) : value_(Number{std::to_string(number)}) {}
  JsonValue(double number);  ///< null unless it is finite
  JsonValue(Number number) : value_(std::move(number)) {}
  JsonValue(std::string text) : value_(std::move(text)) {}
  JsonValue(std::string_view text) : value_(std::string(text)) {}
  JsonValue(const char* text) : value_(std::string(text)) {}
  JsonValue(List items) : value_(std::move(items)) {}
  JsonValue(Object members) : value_(std::move(members)) {}
  template <class T>
  JsonValue(const std::optional<T>& maybe) : JsonValue(maybe ? JsonValue(*maybe) : JsonValue()) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_boolean() const { return std::holds_alternative<bool>(value_); }
  bool is_number() const { return std::holds_alternative<Number>(value_); }
  bool is_text() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<List>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  bool truth() const;
  /// Nothing for one that is too large for a double.
  std::optional<double> number() const;
  /// A number as it was written.
  const std::string& number_text() const;
  const std::string& text() const;
  const List& items() const;
  const Object& members() const;

  /// The last member with that name.
  const JsonValue& operator[](std::string_view name) const;
  /// Adds a member. REQUIRES: an object, or null, which becomes one.
  void add(std::string_view name, JsonValue value);

  bool operator==(const JsonValue& other) const;

 private:
  std::variant<std::monostate, bool, Number, std::string, List, Object> value_;
};

/// Parses a whole document. Errors: bad_request, with what is wrong.
Result<JsonValue> parse_json(std::string_view json);

/// Appends the value without spaces.
void append_json(std::string& out, const JsonValue& value);
std::string json_text(const JsonValue& value);

}  // namespace evenkeel
