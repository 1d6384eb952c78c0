// The lines of saved state about what schedulers have learned.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/saved_state.h"
#include "server/state_words.h"

namespace evenkeel {

/// Appends lines, but none about prefixes.
void add_scheduler_lines(std::string& facts, const SavedState& state);
/// Appends what `key`'s caches hold.
void add_prefix_lines(std::string& facts, const SavedState::Key& key, const LearnedEngine& engine);

/// Appends where the sessions of a pool are pinned.
void add_session_lines(std::string& facts, const std::string& pool,
                       std::span<const AffinityTable::Saved> sessions);

/// The rest of a line. A malformed one changes nothing, and is counted. False: it is of no such
/// kind.
bool read_scheduler_line(std::string_view kind, StateWords& words, SavedState& state);

}  // namespace evenkeel
