// The names of the log's levels, and lines that no level drops: the record of what operators
// change.
#pragma once

#include <span>
#include <string_view>

#include "evenkeel/base/log.h"

namespace evenkeel::log {

/// The names of all levels, in the order of their values.
std::span<const std::string_view, 4> level_names();

/// Writes one line of level info, whatever the level of its subsystem is. Thread: any.
void record(Subsystem subsystem, std::string_view message);

}  // namespace evenkeel::log
