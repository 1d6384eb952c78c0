// What `evenkeel import` prints.
#pragma once

#include <string>

#include "cli/check.h"
#include "evenkeel/import/import.h"

namespace evenkeel {

/// A configuration with what was left out as its first comments, and the same on stderr. `file`:
/// what was read. A configuration that `check` would refuse is printed too, with what is wrong.
CommandOutput import_output(const Import& result, const std::string& file);

}  // namespace evenkeel
