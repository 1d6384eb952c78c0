#include "proxy/plan_pools.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "evenkeel/base/hash.h"
#include "proxy/filter_chain.h"
#include "proxy/session_sources.h"

namespace evenkeel {
namespace {

/// `index`: of LabelIndex.
ForwarderOptions forwarder_options(const PoolConfig& pool, std::uint32_t index,
                                   const std::vector<RouteRules>& rules,
                                   std::shared_ptr<const TenantSessions> of_tenants,
                                   std::uint64_t max_held_bytes, HeldBodies& held_bodies) {
  ForwarderOptions options{.pool_index = index,
                           .retry = RetryPolicy(pool.retry),
                           .rules = rules.empty() ? nullptr : &rules,
                           .engine = &engine_named(pool.engine),
                           .finds_stream_errors = &engine_named(pool.engine) != &generic_engine,
                           .held_bodies = &held_bodies,
                           .max_held_bytes = max_held_bytes};
  if (!pool.model.empty()) options.served_model = hash_of(pool.model);
  const PickerChoice& hashed = pool.picker.shadow_picker.value_or(pool.picker);
  if (hashed.name == "consistent-hash") options.hash_header = hashed.header;
  if (const auto affinity = affinity_of(pool)) {
    options.sessions =
        std::make_shared<SessionSources>(affinity->by, affinity->mode, std::move(of_tenants));
  }
  return options;
}

}  // namespace

PlanPools::PlanPools(const Config& config, const PoolSet& pool_set, const WorkerContext& worker,
                     const WorkerLinks& links, LabelUses& label_uses, Rng& rng) {
  for (const RouteConfig& route : config.routes) {
    RouteRules& rules = rules_.emplace_back(
        RouteRules{.route = route.name, .retry = {}, .slo = route.slo, .timeouts = route.timeouts});
    if (route.retry) rules.retry.emplace(*route.retry);
  }
  if (std::ranges::all_of(rules_, &RouteRules::empty)) rules_.clear();  // none is looked up
  const auto of_tenants = sessions_of(config.tenants);
  for (const PoolConfig& pool : config.pools) {
    const PoolSet::PoolEntry& entry = pool_set.pools()[pools_.size()];
    const std::uint32_t index = label_uses.pool(pool.name);
    Forwarder& forwarder = forwarders_.emplace_back(
        worker.loop, entry.state, rng(), links.backends_of(entry), worker.metrics(),
        forwarder_options(pool, index, rules_, of_tenants, config.limits.held_bodies_bytes,
                          worker.held_bodies));
    by_name_[pool.name] =
        &pools_.emplace_back(PlanPool{.config = pool, .index = index, .forwarder = &forwarder});
  }
  for (PlanPool& pool : pools_) pool.fallback = find(pool.config.fallback.pool);
  for (PlanPool& pool : pools_) {
    for (const PlanPool* each = &pool; each != nullptr; each = each->fallback) {
      pool.reads_bodies |= inspects(each->config);
      pool.renames |= renames(each->config);
      pool.changes_bodies |= !each->config.body.empty();
    }
  }
}

PlanPool* PlanPools::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

void PlanPools::hand_queues_to(const PlanPools& successor,
                               const std::shared_ptr<const void>& plan) {
  for (PlanPool& pool : pools_) {
    const PlanPool* const next = successor.find(pool.config.name);
    const bool goes_on = next != nullptr && rewrites_alike(pool.config, next->config);
    pool.forwarder->hand_queue_to(goes_on ? next->forwarder : nullptr, plan);
  }
}

}  // namespace evenkeel
