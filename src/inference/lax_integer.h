// Integers as servers written in Python take them.
#pragma once

#include <optional>
#include <string_view>

#include "evenkeel/json/scanner.h"

namespace evenkeel {

// What pydantic takes for an integer where a model's field is an `int`, which is what vLLM and
// SGLang read their requests with (https://docs.pydantic.dev/latest/concepts/conversion_table/).
// Both return nothing for what it refuses, and a magnitude of at most 2^64 - 1.

/// Reads a JSON number with a fraction or an exponent: 500.0, 5e2. It must be less than 2^63.
std::optional<json::Number> lax_integer(std::string_view number);
/// Reads the text of a string: "500", " +500 ", "5_000", "500.0".
std::optional<json::Number> lax_integer_in_text(std::string_view text);

}  // namespace evenkeel
