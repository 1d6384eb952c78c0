// SHA-256 (FIPS 180-4).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace evenkeel {

using Sha256 = std::array<std::uint8_t, 32>;

/// About a microsecond for a short text.
Sha256 sha256(std::string_view bytes);

}  // namespace evenkeel
