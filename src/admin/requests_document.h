// The last requests as JSON documents of the admin API.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "evenkeel/json/value.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// How many requests the document has at most, over all workers.
inline constexpr std::size_t max_recent_requests = 256;

/// Returns the last requests to models, the last one first. Thread: any.
JsonValue::List recent_requests_document(const MetricsRegistry& registry);

JsonValue request_document(const RecentRequest& request);

/// Returns the last request of this id, to a model or one that failed. Nothing: none is remembered.
/// Thread: any.
std::optional<RecentRequest> find_request(const MetricsRegistry& registry,
                                          std::string_view request_id);

}  // namespace evenkeel
