// Durations as people type and read them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// "30s", "500ms", "100us", "2m", "1h", or a number of seconds. Nothing for anything else.
std::optional<Duration> parse_duration(std::string_view text);

/// "3d 4h", "5m 12s", "4s": the two largest units. "-" for a negative or unknown (NaN) number.
std::string format_duration(double seconds);

}  // namespace evenkeel
