// Single values out of JSON by their key alone: for documents that our own side of the wire knows,
// at the pace of a token stream. Whoever must not be fooled uses inference's readers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace evenkeel {

/// What follows `"key":` at its first place from `from` on, which moves behind the key; empty:
/// there is none. `key` comes with its quotes. A key inside a string never matches: its closing
/// quote has a backslash.
std::string_view find_json_value(std::string_view json, std::string_view key, std::size_t& from);

/// The whole number at the first place of `key`.
std::optional<std::uint64_t> find_json_uint(std::string_view json, std::string_view key);

/// The text at the first place of `key`; empty where there is none. Escapes of one character only.
std::string find_json_string(std::string_view json, std::string_view key);

}  // namespace evenkeel
