// What `evenkeel top` shows of two looks at a daemon.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/inference/json_value.h"

namespace evenkeel {

/// What a daemon told, and when.
struct TopSnapshot {
  Instant at{};
  double since_epoch = 0;  ///< seconds
  JsonValue status;
  JsonValue pools;
  JsonValue backends;
};

/// Requests per second of each backend of `now`, by what was picked since `before`; one that was
/// not there before has none.
std::vector<double> pick_rates(const TopSnapshot& before, const TopSnapshot& now);

/// The whole view, a line each. Without a look before there are no rates.
std::vector<std::string> top_lines(const std::optional<TopSnapshot>& before,
                                   const TopSnapshot& now);

/// As much of `lines` as a screen has room for; what is left out is said in the last line.
std::string fit(const std::vector<std::string>& lines, std::size_t columns, std::size_t rows);

}  // namespace evenkeel
