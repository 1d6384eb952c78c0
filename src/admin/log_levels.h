// The levels of the daemon's own log.
#pragma once

#include <string_view>

#include "admin/message.h"

namespace evenkeel {

/// The level that every subsystem was set to, and that of each:
/// {"level": "info", "levels": {"health": "debug", ...}}.
AdminReply log_levels();

/// Sets the level of every subsystem, {"level": "debug"}, those of some, {"levels": {"health":
/// "debug"}}, or first the one and then the others. 200 with all levels; 422 for a body that is not
/// valid, which changes nothing.
AdminReply set_log_levels(std::string_view body);

}  // namespace evenkeel
