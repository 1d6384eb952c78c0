// The page at /metrics.
#pragma once

#include <string>

#include "evenkeel/admin/runtime_status.h"

namespace evenkeel {

/// The page in Prometheus text format 0.0.4: the workers' counters, the pools and backends as they
/// are, the daemon and its process. docs/observability.md describes each family. Reads atomics and
/// published snapshots; of a pool with a scheduler also what that expects, under its lock, for a
/// moment per backend. Takes tens of milliseconds for 1000 backends. Thread: any but a worker's.
std::string render_metrics(const RuntimeAccess& runtime);

}  // namespace evenkeel
