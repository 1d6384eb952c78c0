// Text from elsewhere: what of it can be shown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace evenkeel {

/// Length of the UTF-8 sequence at the front of `text`; 0: there is none.
std::size_t utf8_length(std::string_view text);

/// The text in UTF-8 and without control characters, which could drive a terminal: `?` in place of
/// each of those, U+FFFD of each byte that is not UTF-8. Characters of `kept` stay.
std::string printable_utf8(std::string_view text, std::string_view kept = {});

}  // namespace evenkeel
