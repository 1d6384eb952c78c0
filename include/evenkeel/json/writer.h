// Writes JSON strings.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace evenkeel {

/// One character as it stands in a JSON string, and the bytes of the text that it stands for.
struct JsonCharacter {
  std::array<char, 6> bytes;
  std::size_t size;
  std::size_t consumed;
};
/// The first character of `text`. Control characters, DEL and those that terminals interpret (C1)
/// are escaped; a byte that is not UTF-8 becomes U+00XX, the character of Latin 1 with its number.
/// REQUIRES: `text` is not empty.
JsonCharacter json_character(std::string_view text);

/// Appends `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);
std::string json_string(std::string_view text);

}  // namespace evenkeel
