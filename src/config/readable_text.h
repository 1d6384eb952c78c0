#pragma once

#include <string_view>

#include "config/problems.h"

namespace evenkeel::config_file {

// Reports a text that is too large, or no text, and returns false.
bool is_readable(std::string_view text, Report& report);

}  // namespace evenkeel::config_file
