// How the daemon's own log is written.
#pragma once

#include "evenkeel/config/config.h"

namespace evenkeel {

/// Sets the level and the format of the log. Thread: any.
void apply_log_config(const LogConfig& config);

}  // namespace evenkeel
