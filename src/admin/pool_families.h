// The families of the page at /metrics about single pools.
#pragma once

#include "admin/documents.h"
#include "evenkeel/stats/metrics_page.h"

namespace evenkeel {

/// Adds whether each pool panics. Thread: any but a worker's.
void add_panic_family(MetricsPage& page, const RuntimeView& view);

/// Adds sessions, subsets and what schedulers have done, of pools that have them. Thread: any but a
/// worker's.
void add_pool_families(MetricsPage& page, const RuntimeView& view);

}  // namespace evenkeel
