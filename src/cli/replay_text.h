// What `evenkeel replay` prints.
#pragma once

#include <string>
#include <vector>

#include "evenkeel/replay/replay.h"

namespace evenkeel {

/// A table, a line for each row.
std::string replay_table(const std::vector<ReplayRow>& rows);
/// `{"rows": [...]}`, as docs/simulator.md describes it; times in seconds.
std::string replay_json(const std::vector<ReplayRow>& rows);

}  // namespace evenkeel
