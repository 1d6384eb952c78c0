// Text from elsewhere: what of it can be shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace evenkeel {

enum class Utf8Sequence : std::uint8_t { complete, incomplete, ill_formed };

/// Checks the character at the beginning of `text` (RFC 3629, section 4); `size`: its bytes, by the
/// first one. REQUIRES: `text` is not empty.
Utf8Sequence first_utf8_sequence(std::string_view text, std::size_t& size);

/// Length of the UTF-8 sequence at the front of `text`; 0: there is none.
std::size_t utf8_length(std::string_view text);

/// The text in UTF-8 and without control characters, which could drive a terminal: `?` in place of
/// each of those, U+FFFD of each byte that is not UTF-8. Characters of `kept` stay.
std::string printable_utf8(std::string_view text, std::string_view kept = {});

}  // namespace evenkeel
