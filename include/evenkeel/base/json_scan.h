// Finds single values in JSON by their key alone, fast enough for every event of a token stream.
// Only for documents of known shape; use inference's readers for untrusted input.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace evenkeel {

/// What follows the first `"key":` at or after `from`, which moves behind the key; empty if there
/// is none. `key` includes its quotes. A key inside a string never matches: its closing quote is
/// escaped there.
std::string_view find_json_value(std::string_view json, std::string_view key, std::size_t& from);

/// The integer after the first `key`.
std::optional<std::uint64_t> find_json_uint(std::string_view json, std::string_view key);

/// The string after the first `key`; empty if there is none. Decodes one-character escapes only.
std::string find_json_string(std::string_view json, std::string_view key);

}  // namespace evenkeel
