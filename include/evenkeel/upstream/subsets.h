// The parts of pools that the routes of a file name.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/pool/subset.h"

namespace evenkeel {

/// The backends that requests of this target are for.
SubsetSpec subset_of(const RouteTarget& target);
/// The backends of the pool at which sessions stay that are pinned to them, as far as the route
/// decides: those that have a share in it.
SubsetSpec session_subset_of(const RouteConfig& route, std::string_view pool);
/// All of these, by pool: no two alike, none the whole pool. Views into `config`.
std::unordered_map<std::string_view, std::vector<SubsetSpec>> subsets_of(const Config& config);

}  // namespace evenkeel
