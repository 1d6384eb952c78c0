// How much of limits and budgets is used, for the admin API and the page at /metrics.
#pragma once

#include <span>

#include "admin/documents.h"
#include "evenkeel/json/value.h"
#include "evenkeel/stats/metrics_page.h"
#include "evenkeel/tenancy/limits.h"

namespace evenkeel {

/// Returns each limit with what is used of it. `use`: null: nothing is.
JsonValue::List limits_document(std::span<const Limit> limits, const LimitUse* use);

/// Adds the limits of tenants and the budgets of pools, if there are any. Thread: any but a
/// worker's.
void add_limit_families(MetricsPage& page, const RuntimeView& view);

}  // namespace evenkeel
