// Fields of a request in JSON, as vLLM checks them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/result.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

inline Error bad_request(std::string detail) {
  return {.fault = Fault::bad_request, .side = Side::client, .detail = std::move(detail)};
}

/// Parses a document that must be an object.
Result<JsonValue> parse_json_object(std::string_view json);

/// Reads the fields of an object by name; null counts as absent. Remembers what is wrong with the
/// first wrong one. REQUIRES: the object outlives this one.
class JsonFields {
 public:
  explicit JsonFields(const JsonValue& object) : object_(object) {}

  const JsonValue& operator[](std::string_view key) const { return object_[key]; }
  std::string text(std::string_view key);
  bool truth(std::string_view key);
  /// An integer of at least `minimum`, clamped to 32 bits.
  std::optional<std::uint32_t> count(std::string_view key, std::uint32_t minimum);
  std::optional<std::uint32_t> count(std::string_view key, const JsonValue& value,
                                     std::uint32_t minimum);
  void refuse(std::string_view key, std::string_view what);

  /// What is wrong with the first wrong field; empty if nothing is.
  const std::string& problem() const { return problem_; }

 private:
  const JsonValue& object_;
  std::string problem_;
};

}  // namespace evenkeel
