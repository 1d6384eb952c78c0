// Where `evenkeel top` gets its snapshots from.
#pragma once

#include <optional>

#include "cli/live_state.h"
#include "cli/top_view.h"
#include "evenkeel/admin/client.h"
#include "evenkeel/base/result.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

/// The snapshot that a daemon's documents give now. Errors: why it does not answer.
Result<TopSnapshot> fetch_snapshot(AdminClient& client);

/// The last requests to models now: GET /api/v1/requests/recent.
Result<JsonValue> fetch_recent_requests(AdminClient& client);

/// Follows a daemon's live events; where it has none, fetches its documents once a second.
/// Snapshots are far enough apart to compute rates from.
class TopSource {
 public:
  explicit TopSource(AdminClient& client) : client_(client) {}

  /// The next snapshot; nothing if there is none within `timeout`. After an error the next call
  /// connects again.
  Result<std::optional<TopSnapshot>> next(Duration timeout);

 private:
  Result<std::optional<TopSnapshot>> next_document();

  AdminClient& client_;
  LiveState state_;
  bool has_live_events_ = true;
  Instant last_snapshot_ = Clock::now();  // or the construction, before which the first was fetched
};

}  // namespace evenkeel
