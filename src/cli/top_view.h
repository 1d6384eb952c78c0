// What `evenkeel top` shows of two snapshots of a daemon.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/admin_text.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

/// What a daemon reported, and when.
struct TopSnapshot {
  Instant at{};
  double since_epoch = 0;  ///< seconds
  JsonValue status;
  JsonValue pools;
  JsonValue backends;
};

/// How the view is laid out.
struct TopLayout {
  BackendOrder order = BackendOrder::state;
  std::optional<std::size_t> width = std::nullopt;  ///< none: unlimited
};

/// Requests per second of each backend in `now`, from what was picked since `before`; 0 for one
/// that is not in `before`.
std::vector<double> pick_rates(const TopSnapshot& before, const TopSnapshot& now);

/// The whole view, one line each. Without an earlier snapshot it has no rates.
std::vector<std::string> top_lines(const std::optional<TopSnapshot>& before, const TopSnapshot& now,
                                   const TopLayout& layout);

/// Keeps as many of `lines` as fit the screen; the last line says how many are left out.
std::string fit(const std::vector<std::string>& lines, std::size_t columns, std::size_t rows);

}  // namespace evenkeel
