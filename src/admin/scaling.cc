#include "admin/scaling.h"

#include <cstdint>
#include <memory>
#include <optional>

#include "evenkeel/scaling/scaling_feed.h"

namespace evenkeel {
namespace {

JsonValue or_null(std::optional<double> value) { return value ? JsonValue(*value) : JsonValue(); }

ScalingFeed::Snapshot scaling_of(const RuntimeView& view) {
  if (view.runtime.scaling == nullptr) return std::make_shared<const ScalingSnapshot>();
  return view.runtime.scaling->snapshot();
}

JsonValue document_of(const PoolScaling& pool) {
  JsonValue document;
  document.add("pool", pool.pool);
  document.add("replicas", pool.sample.replicas);
  document.add("desired", pool.plan.desired);
  document.add("reason", to_string(pool.plan.reason));
  document.add("demand", pool.plan.demand);
  document.add("trend_per_minute", pool.plan.trend);
  document.add("min", pool.config.min);
  document.add("max", pool.config.max);
  document.add("target", pool.config.target);
  document.add("waiting", pool.sample.waiting);
  document.add("in_flight", pool.sample.in_flight);
  document.add("load", or_null(pool.plan.load));
  document.add("work", or_null(pool.plan.work));
  document.add("capacity_per_replica", or_null(pool.plan.capacity));
  return document;
}

}  // namespace

JsonValue::List scaling_document(const RuntimeView& view) {
  JsonValue::List documents;
  const ScalingFeed::Snapshot snapshot = scaling_of(view);
  for (const PoolScaling& pool : snapshot->pools) documents.push_back(document_of(pool));
  return documents;
}

void add_scaling_families(MetricsPage& page, const RuntimeView& view) {
  const ScalingFeed::Snapshot snapshot = scaling_of(view);
  if (snapshot->pools.empty()) return;
  page.gauges("evenkeel_pool_desired_replicas",
              "Replicas of its server that a pool should have, within `scaling.min` and `max`.");
  for (const PoolScaling& pool : snapshot->pools)
    page.add({{"pool", pool.pool}}, std::uint64_t{pool.plan.desired});
  page.gauges("evenkeel_pool_demand_replicas",
              "Replicas of its server that the forecast of a pool's load would use to "
              "`scaling.target`, neither rounded nor limited.");
  for (const PoolScaling& pool : snapshot->pools) page.add({{"pool", pool.pool}}, pool.plan.demand);
}

}  // namespace evenkeel
