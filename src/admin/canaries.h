// The trials of canaries as documents of the admin API, and as metrics.
#pragma once

#include "admin/documents.h"
#include "evenkeel/json/value.h"
#include "evenkeel/stats/metrics_page.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

/// Returns whether a canary is on trial, and what its answers were like within its window.
JsonValue canary_document(const PoolSet::Canary& canary, Instant now);
/// Returns one for each canary of the file.
JsonValue::List canaries_document(const RuntimeView& view);

/// Adds whether each canary is withdrawn. Thread: any but a worker's.
void add_canary_family(MetricsPage& page, const RuntimeView& view);

}  // namespace evenkeel
