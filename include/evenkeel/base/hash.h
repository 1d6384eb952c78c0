// The one hash function: XXH3, 64 bits. Not for secrets.
#pragma once

#include <cstdint>
#include <string_view>

namespace evenkeel {

/// The same bytes give the same hash in every process and on every machine.
std::uint64_t hash_of(std::string_view bytes);

}  // namespace evenkeel
