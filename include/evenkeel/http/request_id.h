// The ids of requests: x-request-id.
#pragma once

#include <array>
#include <string_view>

#include "evenkeel/base/rng.h"

namespace evenkeel {

/// True if a client's x-request-id is used: 1 to 128 of [A-Za-z0-9._-].
bool is_valid_request_id(std::string_view id);

using RequestIdText = std::array<char, 36>;
/// A UUID of version 7 (RFC 9562): 48 bits of Unix milliseconds, the rest random.
RequestIdText make_request_id(Rng& rng);

}  // namespace evenkeel
