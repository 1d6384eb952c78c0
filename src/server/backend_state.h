// In which of the states that the admin API and the metrics tell a backend is.
#pragma once

#include <string_view>

#include "evenkeel/balance/backend.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

/// One of `backend_states` (stats/exposition.h).
std::string_view state_of(const Backend& backend, Instant now);

}  // namespace evenkeel
