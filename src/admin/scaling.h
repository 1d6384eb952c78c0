// How many replicas pools should have, as a document of the admin API and as metrics.
#pragma once

#include "admin/documents.h"
#include "evenkeel/json/value.h"
#include "evenkeel/stats/metrics_page.h"

namespace evenkeel {

/// Returns one for each pool with `scaling`.
JsonValue::List scaling_document(const RuntimeView& view);

/// Adds what autoscalers read. Thread: any but a worker's.
void add_scaling_families(MetricsPage& page, const RuntimeView& view);

}  // namespace evenkeel
