#include "evenkeel/base/utf8.h"

#include <algorithm>

namespace evenkeel {

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    if (first == 0xe0 && byte(1) < 0xa0) return 0;
    if (first == 0xed && byte(1) > 0x9f) return 0;
    return continues(1) && continues(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if (first == 0xf0 && byte(1) < 0x90) return 0;
    if (first == 0xf4 && byte(1) > 0x8f) return 0;
    return continues(1) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

std::string printable_utf8(std::string_view text, std::string_view kept) {
  constexpr std::string_view replacement = "\xef\xbf\xbd";
  const auto plain = [](char c) { return c >= ' ' && c < '\x7f'; };
  if (std::ranges::all_of(text, plain)) return std::string(text);
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto byte = static_cast<unsigned char>(text.front());
    // U+0080 to U+009F are control characters too.
    const bool second_set =
        length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    const bool control = byte < 0x20 || byte == 0x7f || second_set;
    if (length == 0) {
      shown += replacement;
    } else if (control && kept.find(text.front()) == std::string_view::npos) {
      shown += '?';
    } else {
      shown += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return shown;
}

}  // namespace evenkeel
