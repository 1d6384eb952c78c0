#include "evenkeel/base/hash.h"

#include <xxhash.h>

namespace evenkeel {

std::uint64_t hash_of(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace evenkeel
