// Writes JSON strings.
#pragma once

#include <string>
#include <string_view>

namespace evenkeel {

/// Appends `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);
std::string json_string(std::string_view text);

}  // namespace evenkeel
