// The families of the page at /metrics that come from the workers' counters, summed over all
// workers, and from the process. docs/observability.md describes each.
#pragma once

#include <string>
#include <vector>

#include "evenkeel/stats/metrics_page.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// Adds what became of requests, by route and pool. Series that are known from configuration are
/// there with 0 before anything happens. Thread: any but a worker's.
void add_request_families(MetricsPage& page, const MetricsRegistry& metrics_registry);

/// Adds failures, retries, models, tenants, bytes and listeners. `tls_listeners`: names of those
/// whose handshakes are there before the first one. Thread: any but a worker's.
void add_further_families(MetricsPage& page, const MetricsRegistry& metrics_registry,
                          const std::vector<std::string>& tls_listeners);

/// Adds the standard process_* families; what the kernel does not tell has none. Thread:
/// any.
void add_process_families(MetricsPage& page);

}  // namespace evenkeel
