// SHA-256 (FIPS 180-4), and HMAC with it (RFC 2104).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace evenkeel {

using Sha256 = std::array<std::uint8_t, 32>;

/// About a microsecond for a short text.
Sha256 sha256(std::string_view bytes);

/// The same with a key, without which it cannot be made.
Sha256 hmac_sha256(std::string_view key, std::string_view bytes);

}  // namespace evenkeel
