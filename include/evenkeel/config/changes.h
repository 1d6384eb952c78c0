// What differs between two configurations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evenkeel/config/config.h"

namespace evenkeel {

// One line for each change, in the order of the file, by the names of what changes:
//   pool chat: backend 10.0.0.7:8000: added
//   pool chat: limits.max_in_flight: 8 -> 16
//   listener public: removed
//   shutdown.drain: 120s -> 30s
// Listeners, pools and routes are told apart by their names, backends by their addresses. Empty:
// the two are equal.
std::vector<std::string> describe_changes(const Config& before, const Config& after);

// The keys whose differences a running process cannot apply: "workers", "access_log", "usage",
// "audit".
// Another process has to take over for them.
std::vector<std::string> takeover_changes(const Config& before, const Config& after);

// How many bytes the tables take that a reload allocates in full before the former ones are freed:
// the indexes and the sessions of pools that change theirs. `before`: null for a new process.
std::uint64_t added_table_bytes(const Config* before, const Config& after);

}  // namespace evenkeel
