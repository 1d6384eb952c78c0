// The sessions of pools as text for people.
#pragma once

#include <cstddef>
#include <optional>

#include "cli/admin_text.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

/// Tables of GET /api/v1/sessions: how many sessions each backend has, those used last, and moves.
Lines sessions_text(const JsonValue& pools, std::optional<std::size_t> width = std::nullopt);

}  // namespace evenkeel
