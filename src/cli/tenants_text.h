// What tenants use as text for people.
#pragma once

#include <cstddef>
#include <optional>

#include "cli/admin_text.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

/// A row for each tenant of GET /api/v1/tenants.
Lines tenants_text(const JsonValue& tenants, std::optional<std::size_t> width = std::nullopt);

}  // namespace evenkeel
