#include "evenkeel/base/utf8.h"

#include <algorithm>

namespace evenkeel {

namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

/// Bytes that a character takes which begins with `lead`; 0: none does.
std::size_t sequence_bytes(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;
  if (lead < 0xe0) return 2;
  if (lead < 0xf0) return 3;
  return lead < 0xf5 ? 4 : 0;
}

}  // namespace

Utf8Sequence first_utf8_sequence(std::string_view text, std::size_t& size) {
  const auto lead = static_cast<unsigned char>(text[0]);
  size = sequence_bytes(lead);
  if (size == 0) return Utf8Sequence::ill_formed;
  for (std::size_t i = 1; i < size; ++i) {
    if (i == text.size()) return Utf8Sequence::incomplete;
    if (!is_continuation(text[i])) return Utf8Sequence::ill_formed;
    if (i > 1) continue;
    const auto second = static_cast<unsigned char>(text[1]);
    const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
    const bool surrogate = lead == 0xed && second >= 0xa0;
    const bool too_large = lead == 0xf4 && second >= 0x90;
    if (overlong || surrogate || too_large) return Utf8Sequence::ill_formed;
  }
  return Utf8Sequence::complete;
}

std::size_t utf8_length(std::string_view text) {
  std::size_t size = 0;
  const bool is_whole = !text.empty() && first_utf8_sequence(text, size) == Utf8Sequence::complete;
  return is_whole ? size : 0;
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
