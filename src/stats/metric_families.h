// The step between MetricsPage and prometheus-cpp; for this module only.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "evenkeel/stats/metrics_page.h"

namespace evenkeel {

struct MetricsPageAccess {
  /// Leaves the page empty.
  static std::vector<prometheus::MetricFamily> take_families(MetricsPage& page);
};

/// Writes the families in text format 0.0.4.
std::string to_text(const prometheus::Collectable& collectable);

}  // namespace evenkeel
