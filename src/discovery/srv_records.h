// Backends that SRV records name; no I/O.
#pragma once

#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/net/resolver.h"

namespace evenkeel {

/// The servers with the lowest priority number, with their weights; 0 counts as 1, and weights
/// above the most that a backend may have shrink together.
std::vector<BackendConfig> backends_of(const std::vector<Resolver::Service>& services);

}  // namespace evenkeel
