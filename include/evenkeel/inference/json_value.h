// A JSON document as a tree, for the command line tools. Requests are not parsed this way.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "evenkeel/base/result.h"

namespace evenkeel {

/// A value. An accessor of another type returns an empty result: null, "", no items.
class JsonValue {
 public:
  using Member = std::pair<std::string, JsonValue>;

  JsonValue() = default;  ///< null
  explicit JsonValue(bool truth) : value_(truth) {}
  explicit JsonValue(double number) : value_(number) {}
  explicit JsonValue(std::string text) : value_(std::move(text)) {}
  explicit JsonValue(std::vector<JsonValue> items) : value_(std::move(items)) {}
  explicit JsonValue(std::vector<Member> members) : value_(std::move(members)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_boolean() const { return std::holds_alternative<bool>(value_); }
  bool is_array() const { return std::holds_alternative<std::vector<JsonValue>>(value_); }
  bool is_object() const { return std::holds_alternative<std::vector<Member>>(value_); }

  bool truth() const;
  std::optional<double> number() const;
  const std::string& text() const;
  const std::vector<JsonValue>& items() const;
  const std::vector<Member>& members() const;
  /// The member with that name.
  const JsonValue& operator[](std::string_view name) const;

 private:
  std::variant<std::monostate, bool, double, std::string, std::vector<JsonValue>,
               std::vector<Member>>
      value_;
};

/// Parses a whole document. Errors: bad_request, with what is wrong.
Result<JsonValue> parse_json(std::string_view json);

}  // namespace evenkeel
