// The families of /metrics with a series for each pool that pins sessions.
#pragma once

#include <vector>

#include "evenkeel/stats/metrics_page.h"
#include "evenkeel/stats/render_metrics.h"

namespace evenkeel {

/// Adds evenkeel_affinity_*; nothing if no pool pins sessions.
void add_affinity_metrics(MetricsPage& page, const std::vector<PoolSnapshot>& pools);

}  // namespace evenkeel
