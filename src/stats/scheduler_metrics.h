// The families of /metrics with a series for each pool whose scheduler places its requests.
#pragma once

#include <vector>

#include "evenkeel/stats/metrics_page.h"
#include "evenkeel/stats/render_metrics.h"

namespace evenkeel {

/// Adds evenkeel_scheduler_* and evenkeel_shadow_*; nothing if no pool has a scheduler.
void add_scheduler_metrics(MetricsPage& page, const std::vector<PoolSnapshot>& pools);

}  // namespace evenkeel
