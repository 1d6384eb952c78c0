// The families of what models' responses reported.
#pragma once

#include "evenkeel/stats/metrics_page.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// Adds tokens and times by pool and model, of those that were seen.
void add_response_metrics(MetricsPage& page, const MetricsRegistry& registry,
                          const LabelIndex::View& names);

}  // namespace evenkeel
