// The last requests to models as text for people.
#pragma once

#include <cstddef>
#include <optional>

#include "cli/admin_text.h"
#include "evenkeel/cli/ctl.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

/// The requests of GET /api/v1/requests/recent that the filter lets pass, in its order.
JsonValue filtered_requests(const JsonValue& requests, const RequestFilter& filter);

/// A row for each of GET /api/v1/requests/recent, the last one first.
Lines requests_text(const JsonValue& requests, std::optional<std::size_t> width = std::nullopt);

}  // namespace evenkeel
