#include "evenkeel/scaling/autoscaler.h"

#include <algorithm>
#include <utility>

#include "evenkeel/pool/pool_load.h"

namespace evenkeel {
namespace {

constexpr Duration planning_interval = std::chrono::seconds(1);

PredictedWork work_of(const SchedulerStats& stats) {
  return {.arrived_total = stats.arrived_total,
          .priced_total = stats.placed_total + stats.refused_total,
          .work_sum = stats.work_sum,
          .capacity = stats.work_capacity};
}

PoolSample sample_of(const PoolState& pool, Instant now) {
  PoolSample sample{.in_flight = pool.in_flight(),
                    .waiting = pool.queue().waiting,
                    .patience = pool.config().limits.queue.timeout};
  if (pool.scheduled() != nullptr) sample.work = work_of(pool.scheduled()->stats());
  // A scheduler holds requests also where there are enough backends.
  const double waiting = sample.work ? 0 : static_cast<double>(sample.waiting);
  const PoolLoad load = load_of(pool, waiting, pool.config().scaling->target, now);
  sample.replicas = load.in_service;
  sample.load = load.used;
  const double limit = pool.config().limits.max_in_flight;
  if (load.in_service == 0 && limit > 0) sample.load = waiting / limit;
  return sample;
}

}  // namespace

/// True if a request waits for a replica that nothing has been told to start.
bool Autoscaler::is_urgent(const PoolState& pool) const {
  const auto found = planners_.find(pool.config().name);
  if (found == planners_.end()) return true;
  return found->second.plan().desired == 0 && pool.queue().waiting > 0;
}

void Autoscaler::tick(const std::vector<const PoolState*>& pools, Instant now) {
  if (pools.empty() && planners_.empty()) return;
  const bool is_due =
      now - planned_at_ >= planning_interval || pools.size() != planners_.size() ||
      std::ranges::any_of(pools, [this](const auto* pool) { return is_urgent(*pool); });
  if (!is_due) return;
  planned_at_ = now;
  Planners former = std::exchange(planners_, {});
  ScalingSnapshot snapshot;
  for (const PoolState* const pool : pools) {
    const std::string& name = pool->config().name;
    ReplicaPlanner& planner = planners_[name];
    if (auto found = former.find(name); found != former.end()) planner = std::move(found->second);
    const ScalingConfig& config = *pool->config().scaling;
    const PoolSample sample = sample_of(*pool, now);
    snapshot.pools.push_back({.pool = name,
                              .config = config,
                              .sample = sample,
                              .plan = planner.update(sample, config, now)});
  }
  feed_.publish(std::move(snapshot));
}

}  // namespace evenkeel
