// The documents of the admin API, as people read them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/inference/json_value.h"

namespace evenkeel {

using Lines = std::vector<std::string>;

/// "3d 4h", "5m 12s", "4s": the two largest units.
std::string format_duration(double seconds);
/// "17", "1.2k", "3.4M": three figures.
std::string amount_text(double amount);
/// "12ms", "1.20s"; "-" for nothing.
std::string latency_text(const std::optional<double>& seconds);
/// "37%"; "-" for nothing.
std::string percent_text(const std::optional<double>& ratio);

/// What a daemon says of itself, and a line for each pool.
Lines status_text(const JsonValue& status, const JsonValue& pools);
/// A line for each problem: file:line:column: error: path: message; help.
Lines problems_text(const JsonValue& problems);
/// A row for each backend. `rates`: requests per second of each, in their order; empty: no such
/// column. `now`: seconds since the epoch.
Lines backends_text(const JsonValue& backends, double now, const std::vector<double>& rates = {});

}  // namespace evenkeel
