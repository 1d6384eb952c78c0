// Dates and times as RFC 3339 has them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Writes "2026-01-31T23:59:59", which is UTC, and returns the end.
char* put_rfc3339(char* at, std::chrono::sys_seconds time);

/// "2026-01-31T23:59:59Z"
std::string rfc3339(std::chrono::sys_seconds time);

/// The time since 1970 of a date and time of RFC 3339, which may lack its zone: UTC then; a blank
/// may stand before the time.
std::optional<Duration> parse_rfc3339(std::string_view text);

}  // namespace evenkeel
