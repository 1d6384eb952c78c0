// Lines of the daemon's log that no level drops: the record of what operators change.
#pragma once

#include <string_view>

#include "evenkeel/base/log.h"

namespace evenkeel::log {

/// Writes one line of level info, whatever the level of its subsystem is. Thread: any.
void record(Subsystem subsystem, std::string_view message);

}  // namespace evenkeel::log
