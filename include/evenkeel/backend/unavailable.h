// Why no backend of a pool takes requests.
#pragma once

#include <string>

#include "evenkeel/backend/backend.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

/// "all backends are drained" where they have one reason in common, else how many have which: "no
/// backend is up: 1 drained, 2 down". Empty: at least one takes them, or the pool has none.
std::string why_unavailable(const Backends& backends, Instant now);

}  // namespace evenkeel
