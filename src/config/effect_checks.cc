#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "config/validation.h"

namespace evenkeel::config_file {
namespace {

// One warning for all backends of the pool.
void check_weights(const PoolConfig& pool, const std::string& path, ParseContext& context) {
  const auto ignores = [](std::string_view picker) {
    return picker == "round-robin" || picker == "expected-time";
  };
  const auto& shadow = pool.picker.shadow_picker;
  if (!ignores(pool.picker.name) || (shadow && !ignores(shadow->name))) return;
  const auto weighted = std::ranges::find_if(
      pool.backends, [](const BackendConfig& backend) { return backend.weight != 1; });
  if (weighted == pool.backends.end()) return;
  const auto index = static_cast<std::size_t>(weighted - pool.backends.begin());
  const std::string key = indexed(path + ".backends", index) + ".weight";
  if (pool.picker.has_scheduler()) {
    context.warn(key, "is only for requests that generate no text with `picker: expected-time`",
                 "others go by the speed that it learns of each backend: remove the weights");
  } else {
    context.warn(key, fmt::format("has no effect with `picker: {}`", pool.picker.name),
                 "take `picker: weighted` or `least-connections`, or remove the weights");
  }
}

// ---- what is for backends of a kind

bool has_standby(const PoolConfig& pool) {
  // A file or a list may name some.
  return pool.discover || std::ranges::any_of(pool.backends, &BackendConfig::standby);
}

// True if requests can wait: for a slot, for a standby backend, or for the scheduler.
bool may_queue(const PoolConfig& pool) {
  return pool.limits.max_in_flight > 0 || pool.slow_start.count() > 0 || has_standby(pool) ||
         pool.picker.has_scheduler();
}

void check_queue(const PoolConfig& pool, const std::string& path, ParseContext& context) {
  const QueueConfig& queue = pool.limits.queue;
  if (queue == QueueConfig{} || queue.size == 0 || may_queue(pool)) return;
  if (context.report.has_problem(path + ".limits")) return;
  context.warn(path + ".limits.queue", "has no effect: without `max_in_flight` no request waits",
               "add `max_in_flight`, how many requests a backend may have, beside it");
}

void check_standby(const PoolConfig& pool, const std::string& path, ParseContext& context) {
  if (pool.standby == StandbyConfig{} || has_standby(pool)) return;
  if (context.report.has_problem(path + ".backends")) return;
  context.warn(path + ".standby", "has no effect: no backend of the pool is a standby one",
               "mark backends with `standby: true`, or remove the key");
}

// ---- routes and tenants

using PoolsByName = std::unordered_map<std::string_view, const PoolConfig*>;

// The pools whose requests `picker: expected-time` may place: there, or in a pool that takes what
// they cannot.
std::unordered_set<std::string_view> scheduled_pools(const Config& config,
                                                     const PoolsByName& pools) {
  std::unordered_set<std::string_view> scheduled;
  std::unordered_set<std::string_view> seen;
  for (const PoolConfig& pool : config.pools) {
    std::vector<std::string_view> chain;  // up to one of which it is known
    const PoolConfig* end = &pool;
    while (end != nullptr && !end->picker.has_scheduler() && seen.insert(end->name).second) {
      chain.push_back(end->name);
      const auto next = pools.find(end->fallback.pool);
      end = next == pools.end() ? nullptr : next->second;
    }
    if (end == nullptr) continue;
    if (end->picker.has_scheduler()) scheduled.insert(end->name);
    if (scheduled.contains(end->name)) scheduled.insert(chain.begin(), chain.end());
  }
  return scheduled;
}

void check_route(const RouteConfig& route, const std::string& path, const PoolsByName& pools,
                 const std::unordered_set<std::string_view>& scheduled, ParseContext& context) {
  const bool reaches_scheduler = std::ranges::any_of(
      route.targets, [&](const RouteTarget& target) { return scheduled.contains(target.pool); });
  if (route.slo != SloConfig{} && !reaches_scheduler) {
    context.warn(path + ".slo", "has no effect: no pool of the route has `picker: expected-time`",
                 "choose that picker in its pool, or remove the key");
  }
  if (route.match.grpc.empty()) return;
  std::unordered_set<std::string_view> reported;
  for (const RouteTarget& target : route.targets) {
    const auto found = pools.find(target.pool);
    if (target.weight == 0 || found == pools.end()) continue;
    if (found->second->protocol != BackendProtocol::http1) continue;
    if (!reported.insert(target.pool).second) continue;
    context.warn(path + ".match.grpc",
                 fmt::format("gRPC needs HTTP/2, and the pool '{}' speaks HTTP/1.1 to its backends",
                             target.pool),
                 "write `protocol: h2` in the pool");
  }
}

void check_tenant_weights(const Config& config, ParseContext& context) {
  const auto schedules = [](const PoolConfig& pool) { return pool.picker.has_scheduler(); };
  if (std::ranges::any_of(config.pools, schedules)) return;
  for (const auto& [path, tenant] : items_of("tenants", config.tenants)) {
    if (tenant.weight == TenantConfig{}.weight) continue;
    context.warn(path + ".weight", "has no effect: no pool has `picker: expected-time`",
                 "choose that picker in a pool, or remove the key");
  }
}

void check_tenant_sessions(const Config& config, ParseContext& context) {
  const auto has_sessions = [](const PoolConfig& pool) { return affinity_of(pool).has_value(); };
  if (std::ranges::any_of(config.pools, has_sessions)) return;
  for (const auto& [path, tenant] : items_of("tenants", config.tenants)) {
    if (tenant.session.empty()) continue;
    context.warn(path + ".session", "has no effect: no pool has `affinity`",
                 "add `affinity: {mode: soft}` to a pool, or remove the key");
  }
}

}  // namespace

void check_effects(const Config& config, ParseContext& context) {
  PoolsByName pools;
  bool has_wrong_pool = false;
  for (const auto& [path, pool] : items_of("pools", config.pools)) {
    pools.emplace(pool.name, &pool);
    if (context.report.has_problem(path + ".picker")) {
      has_wrong_pool = true;
      continue;
    }
    check_weights(pool, path, context);
    check_queue(pool, path, context);
    check_standby(pool, path, context);
  }
  if (has_wrong_pool) return;
  const auto scheduled = scheduled_pools(config, pools);
  for (const auto& [path, route] : items_of("routes", config.routes))
    check_route(route, path, pools, scheduled, context);
  check_tenant_weights(config, context);
  check_tenant_sessions(config, context);
}

}  // namespace evenkeel::config_file
