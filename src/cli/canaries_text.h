// The canaries of splits as text for people.
#pragma once

#include <cstddef>
#include <optional>

#include "cli/admin_text.h"

namespace evenkeel {

/// A row for each canary of the document at /api/v1/canaries.
Lines canaries_text(const JsonValue& canaries, std::optional<std::size_t> width);

}  // namespace evenkeel
