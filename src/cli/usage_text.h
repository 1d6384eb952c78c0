// What `evenkeel usage` prints.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/stats/usage_totals.h"

namespace evenkeel {

/// The names of keys, in the order of their values.
const std::vector<std::string>& usage_key_names();

/// A date ("2026-11-01"), a time as RFC 3339 has it, or how long ago ("12h", "7d"); since 1970.
/// `now`: likewise.
std::optional<Duration> parse_usage_time(std::string_view text, Duration now);

/// A table, with a line for all if there are several groups.
std::string usage_table(const UsageTotals& totals);
std::string usage_json(const UsageTotals& totals);

}  // namespace evenkeel
