// A daemon's state as GET /api/v1/live reports it: a snapshot, then differences.
#pragma once

#include <string_view>

#include "evenkeel/json/value.h"

namespace evenkeel {

/// Value type: copies are snapshots.
struct LiveState {
  JsonValue status;
  JsonValue pools;
  JsonValue backends;
};

/// The state after an event. `kind`: "snapshot", whose data is the whole state, or "diff", whose
/// data names pools by `name` and backends by `pool` and `id`, with the fields that differ; what it
/// does not mention is unchanged. Anything else leaves the state as it is.
LiveState after_event(LiveState state, std::string_view kind, const JsonValue& data);

}  // namespace evenkeel
