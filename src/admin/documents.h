// What the daemon knows, as the JSON documents of the admin API.
#pragma once

#include <cstddef>
#include <string>

#include "evenkeel/admin/backend_state.h"
#include "evenkeel/admin/runtime_status.h"

namespace evenkeel {

std::string status_document(const RuntimeAccess& runtime);
std::string pools_document(const RuntimeAccess& runtime);

/// REQUIRES: `history` has looked at the overview's fleet.
std::string backends_document(const RuntimeAccess& runtime, const BackendStateHistory& history);
/// One of them, by its place in the fleet.
std::string backend_document(const RuntimeAccess& runtime, const BackendStateHistory& history,
                             std::size_t pool, std::size_t backend);

}  // namespace evenkeel
