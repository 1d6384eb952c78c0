// Why a scheduler placed a request as it did, as text for people.
#pragma once

#include <cstddef>
#include <optional>

#include "cli/admin_text.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

/// The attempts of GET /api/v1/decisions/ID, the first one first: what was decided, predicted and
/// came true, and a row for each candidate.
Lines decision_text(const JsonValue& document, std::optional<std::size_t> width = std::nullopt);

}  // namespace evenkeel
