// What the daemon knows, as the JSON documents of the admin API.
#pragma once

#include <cstddef>
#include <string>

#include "server/backend_state.h"
#include "server/overview.h"

namespace evenkeel {

std::string status_document(const Overview& overview);
std::string pools_document(const Overview& overview);

/// REQUIRES: `history` has looked at the overview's fleet.
std::string backends_document(const Overview& overview, const StateHistory& history);
/// One of them, by its place in the fleet.
std::string backend_document(const Overview& overview, const StateHistory& history,
                             std::size_t pool, std::size_t backend);

}  // namespace evenkeel
