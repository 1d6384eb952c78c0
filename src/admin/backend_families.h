// The families of the page at /metrics about single backends.
#pragma once

#include "admin/documents.h"
#include "evenkeel/stats/metrics_page.h"

namespace evenkeel {

/// Adds the state, traffic, engine and forecast of each backend. An unknown value has no series.
/// Thread: any but a worker's.
void add_backend_families(MetricsPage& page, const RuntimeView& view);

}  // namespace evenkeel
