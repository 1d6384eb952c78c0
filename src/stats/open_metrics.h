// OpenMetrics 1.0: https://prometheus.io/docs/specs/om/open_metrics_spec/
#pragma once

#include <prometheus/metric_family.h>

#include <cstddef>
#include <string>
#include <vector>

#include "evenkeel/stats/exemplars.h"

namespace evenkeel {

/// The exemplars of one histogram.
struct SeriesExemplars {
  std::size_t family = 0;            ///< its index
  std::size_t series = 0;            ///< its index in the family
  std::vector<Exemplar> of_buckets;  ///< by bucket
};

/// Writes families, whose names are those of Prometheus' text format: samples have the same names
/// here. `exemplars`: ordered by family and series.
///
/// A counter whose name without `_total` is that of another family has the type `unknown`: two
/// families of the same name would not be valid.
std::string open_metrics_text(const std::vector<prometheus::MetricFamily>& families,
                              const std::vector<SeriesExemplars>& exemplars);

}  // namespace evenkeel
