// The families of /metrics with a series for each backend.
#pragma once

#include <vector>

#include "evenkeel/stats/metrics_page.h"
#include "evenkeel/stats/render_metrics.h"

namespace evenkeel {

/// Adds evenkeel_backend_*: what the daemon does with the backends, their checks, their polls.
void add_backend_metrics(MetricsPage& page, const std::vector<BackendSnapshot>& backends);

}  // namespace evenkeel
