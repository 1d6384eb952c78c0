// Which process of an engine a backend runs.
#pragma once

#include <optional>

namespace evenkeel {

/// One process of an engine: its caches end with it.
struct EngineRun {
  std::optional<double> start_time;  ///< EngineReport::start_time
  std::optional<double> work_done;   ///< EngineReport::work_done; below an earlier one: another run

  bool operator==(const EngineRun&) const = default;
};

}  // namespace evenkeel
