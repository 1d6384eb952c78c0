// Where `evenkeel top` gets what it shows.
#pragma once

#include "cli/top_view.h"
#include "evenkeel/admin/client.h"
#include "evenkeel/base/result.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

/// The snapshot that a daemon's documents give now. Errors: why it does not answer.
Result<TopSnapshot> fetch_snapshot(AdminClient& client);

/// The last requests to models now: GET /api/v1/requests/recent.
Result<JsonValue> fetch_recent_requests(AdminClient& client);

}  // namespace evenkeel
