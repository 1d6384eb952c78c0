#include "subset_metrics.h"

#include <algorithm>

namespace evenkeel {
namespace {

template <class Each>
void each_subset(const std::vector<PoolSnapshot>& pools, Each each) {
  for (const PoolSnapshot& pool : pools) {
    for (const SubsetSnapshot& subset : pool.subsets) {
      each(Labels{{"pool", pool.name}, {"subset", subset.name}}, subset);
    }
  }
}

}  // namespace

void add_subset_metrics(MetricsPage& page, const std::vector<PoolSnapshot>& pools) {
  const bool has_any =
      std::ranges::any_of(pools, [](const PoolSnapshot& pool) { return !pool.subsets.empty(); });
  if (!has_any) return;
  page.gauges("evenkeel_subset_in_rotation",
              "Backends with these labels that may get requests; 0: others get them.");
  each_subset(pools, [&](const Labels& labels, const SubsetSnapshot& subset) {
    page.add(labels, subset.in_rotation);
  });
  page.counters("evenkeel_subset_fallbacks_total",
                "Attempts that went to other backends of the pool, since none with these labels "
                "could take them.");
  each_subset(pools, [&](const Labels& labels, const SubsetSnapshot& subset) {
    page.add(labels, subset.fallbacks);
  });
}

}  // namespace evenkeel
