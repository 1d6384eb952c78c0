// The families of /metrics with a series for each part of a pool that a split names by labels.
#pragma once

#include <vector>

#include "evenkeel/stats/metrics_page.h"
#include "evenkeel/stats/render_metrics.h"

namespace evenkeel {

/// Adds evenkeel_subset_*; nothing if no split names backends by labels.
void add_subset_metrics(MetricsPage& page, const std::vector<PoolSnapshot>& pools);

}  // namespace evenkeel
