// What differs between two configurations.
#pragma once

#include <string>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/config/load.h"

namespace evenkeel {

// One line for each change, in the order of the file, by the names of what changes:
//   pool chat: backend 10.0.0.7:8000: added
//   pool chat: limits.max_in_flight: 8 -> 16
//   listener public: removed
//   shutdown.drain: 120s -> 30s
// Listeners, pools and routes are told apart by their names, backends by their addresses. Empty:
// the two are equal.
std::vector<std::string> describe_changes(const Config& before, const Config& after);

// The differences that only a restart can apply: the reasons why a reload rejects `after`. `file`
// is its name in the problems.
std::vector<Problem> restart_only_changes(const Config& before, const Config& after,
                                          const std::string& file);

}  // namespace evenkeel
