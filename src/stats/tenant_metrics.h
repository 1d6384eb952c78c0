// The families of tenants.
#pragma once

#include "evenkeel/stats/metrics_page.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// Adds requests, waiting ones and tokens by tenant, if the file names tenants.
void add_tenant_metrics(MetricsPage& page, const MetricsRegistry& registry,
                        const LabelIndex::View& names);

}  // namespace evenkeel
