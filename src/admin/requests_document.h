// The last requests to models as a JSON document of the admin API.
#pragma once

#include <cstddef>

#include "evenkeel/json/value.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// How many requests the document has at most, over all workers.
inline constexpr std::size_t max_recent_requests = 256;

/// The last ones first. Thread: any.
JsonValue::List recent_requests_document(const MetricsRegistry& registry);

}  // namespace evenkeel
