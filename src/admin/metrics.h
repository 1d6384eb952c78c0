// The page at /metrics.
#pragma once

#include <string>
#include <string_view>

#include "evenkeel/admin/runtime_status.h"
#include "evenkeel/stats/metrics_page.h"

namespace evenkeel {

/// The page: the workers' counters, the pools and backends as they
/// are, the daemon and its process. docs/observability.md describes each family. Reads atomics and
/// published snapshots; of a pool with a scheduler also what that expects, under its lock, for a
/// moment per backend. Takes tens of milliseconds for 1000 backends. Thread: any but a worker's.
std::string render_metrics(const RuntimeAccess& runtime,
                           MetricsFormat format = MetricsFormat::text);

/// The format that a client prefers, by its field `accept`: OpenMetrics only if it is named there.
MetricsFormat preferred_metrics_format(std::string_view accept);

}  // namespace evenkeel
