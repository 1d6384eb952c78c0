// Base64 with the alphabet for URLs (RFC 4648, section 5), as JSON Web Signatures use it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace evenkeel {

/// Decodes text without padding. Nothing for a character outside of the alphabet, an impossible
/// length, or bits behind the last byte that are not 0: each bytes have one text.
std::optional<std::string> decode_base64url(std::string_view text);

}  // namespace evenkeel
