// The file in which a daemon keeps its state for the next one (`state_file`).
#pragma once

#include <optional>
#include <string>

#include "server/saved_state.h"

namespace evenkeel {

/// Blocks. Nothing: there is no file, or, with a warning in the log, one that cannot be used.
/// Thread: any.
std::optional<SavedState> read_state_file(const std::string& path);

/// Blocks. Returns why it was not written; empty: it was. Thread: any.
std::string write_state_file(const std::string& path, const std::string& text);

}  // namespace evenkeel
