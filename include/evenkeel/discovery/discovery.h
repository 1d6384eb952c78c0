// Who is in the pools with `discover`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "evenkeel/config/config.h"

namespace evenkeel {

/// The backends that were found, by pool.
using FoundBackends = std::map<std::string, std::vector<BackendConfig>, std::less<>>;

}  // namespace evenkeel
