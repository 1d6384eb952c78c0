#include "affinity_metrics.h"

#include <algorithm>

namespace evenkeel {
namespace {

template <class Each>
void each_pool(const std::vector<PoolSnapshot>& pools, Each each) {
  for (const PoolSnapshot& pool : pools) {
    if (pool.affinity) each(Labels{{"pool", pool.name}}, *pool.affinity);
  }
}

}  // namespace

void add_affinity_metrics(MetricsPage& page, const std::vector<PoolSnapshot>& pools) {
  const auto pins = [](const PoolSnapshot& pool) { return pool.affinity.has_value(); };
  if (std::none_of(pools.begin(), pools.end(), pins)) return;
  page.gauges("evenkeel_affinity_sessions", "Sessions that are pinned to a backend.");
  each_pool(pools, [&](const Labels& labels, const AffinitySnapshot& affinity) {
    page.add(labels, affinity.sessions);
  });
  page.counters("evenkeel_affinity_requests_total",
                "Requests of a session, by what became of its pin.");
  each_pool(pools, [&](const Labels& labels, const AffinitySnapshot& affinity) {
    page.add(labels, {"result", "hit"}, affinity.hits);
    page.add(labels, {"result", "miss"}, affinity.misses);
    page.add(labels, {"result", "move"}, affinity.moves);
  });
  page.counters("evenkeel_affinity_evictions_total",
                "Sessions that were forgotten for lack of room.");
  each_pool(pools, [&](const Labels& labels, const AffinitySnapshot& affinity) {
    page.add(labels, affinity.evictions);
  });
}

}  // namespace evenkeel
