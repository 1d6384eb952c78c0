// Why requests were placed where they were, as JSON documents of the admin API.
#pragma once

#include <string_view>

#include "evenkeel/base/clock.h"
#include "evenkeel/json/value.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

/// What the pools' schedulers keep of requests with this ID: a document for each attempt, the first
/// one first. Clients choose the IDs: `request` numbers those that have the same. Thread: any.
JsonValue::List decisions_of(const PoolSet& pool_set, std::string_view request_id, Instant now);

}  // namespace evenkeel
