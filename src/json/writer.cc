#include "evenkeel/json/writer.h"

#include <algorithm>

#include "evenkeel/base/utf8.h"

namespace evenkeel {

JsonCharacter json_character(std::string_view text) {
  const char c = text.front();
  const auto byte = static_cast<unsigned char>(c);
  const auto escaped = [](char letter) { return JsonCharacter{{'\\', letter}, 2, 1}; };
  switch (c) {
    case '"':
    case '\\': return escaped(c);
    case '\n': return escaped('n');
    case '\r': return escaped('r');
    case '\t': return escaped('t');
    default: break;
  }
  const bool is_control = byte < 0x20 || byte == 0x7f;
  const std::size_t length = is_control ? 0 : utf8_length(text);
  const bool is_c1 = length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
  if (length > 0 && !is_c1) {
    JsonCharacter character{{}, length, length};
    std::ranges::copy(text.substr(0, length), character.bytes.begin());
    return character;
  }
  constexpr char digits[] = "0123456789abcdef";
  const unsigned code = is_c1 ? static_cast<unsigned char>(text[1]) : byte;
  const std::size_t consumed = is_c1 ? 2 : 1;
  return {{'\\', 'u', '0', '0', digits[code >> 4], digits[code & 15]}, 6, consumed};
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const bool is_ascii = static_cast<unsigned char>(text.front()) < 0x80;
    if (!is_ascii && utf8_length(text) == 0) {
      out += "\xef\xbf\xbd";
      text.remove_prefix(1);
      continue;
    }
    const JsonCharacter character = json_character(text);
    out.append(character.bytes.data(), character.size);
    text.remove_prefix(character.consumed);
  }
  out += '"';
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace evenkeel
