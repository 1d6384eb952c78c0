// Small JSON: quotes strings, and parses flat objects.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "evenkeel/base/json.h"
#include "evenkeel/base/result.h"

namespace evenkeel {

/// `text` as a JSON string, with quotes.
std::string json_string(std::string_view text);

/// null, true and false, a number, a string.
using JsonScalar = std::variant<std::monostate, bool, double, std::string>;

/// Parses an object whose values are all scalars. Errors: bad_request, with what is wrong. `json`
/// grows by the padding that the parser reads into.
Result<std::map<std::string, JsonScalar>> parse_json_scalars(std::string& json);

}  // namespace evenkeel
