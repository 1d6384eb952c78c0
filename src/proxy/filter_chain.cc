#include "proxy/filter_chain.h"

#include <algorithm>
#include <utility>

#include "evenkeel/config/selector.h"
#include "evenkeel/config/split_target.h"

namespace evenkeel {
namespace {

/// True if something counts the tokens of responses.
bool reads_usage(const Config& config) {
  const auto has_budget = [](const PoolConfig& pool) { return !pool.budget.empty(); };
  return config.usage.is_on() || std::ranges::any_of(config.pools, has_budget) ||
         std::ranges::any_of(config.tenants, &LimitsConfig::count_tokens, &TenantConfig::limits) ||
         std::ranges::any_of(config.rate_limits, &LimitsConfig::count_tokens);
}

/// Bodies are kept up to the size that is inspected, or that a pool or a route keeps for retries.
InspectFilter::Options inspection_options(const Config& config,
                                          const std::vector<std::string>& members) {
  const std::uint64_t inspected = config.limits.inspected_body_bytes;
  std::uint64_t kept = inspected;
  for (const PoolConfig& pool : config.pools) kept = std::max(kept, pool.retry.replay_bytes);
  for (const RouteConfig& route : config.routes) {
    if (route.retry) kept = std::max(kept, route.retry->replay_bytes);
  }
  return {.max_body_bytes = inspected,
          .held = {.body_bytes = kept, .worker_bytes = config.limits.held_bodies_bytes},
          .members = members.empty() ? nullptr : &members,
          .reads_usage = reads_usage(config)};
}

/// True if clients may get usage that they did not ask for, where the engine gives it. With
/// `engine: auto` that is known when the backend is chosen.
bool adds_usage(const PoolConfig& pool) {
  const bool may_give =
      pool.engine == undetected_engine || engine_named(pool.engine).gives_stream_usage;
  const bool is_asked = pool.stream_usage == StreamUsage::on ||
                        (pool.stream_usage == StreamUsage::automatic && may_give);
  return inspects(pool) && is_asked;
}

/// True if a route for which `has(route)` holds leads to the pool.
template <class Has>
bool leads_to(const PlanPool& pool, const Config& config, const Has& has) {
  return std::ranges::any_of(config.routes, [&](const RouteConfig& route) {
    return has(route) && std::ranges::find(route.targets, pool.config.name, &RouteTarget::pool) !=
                             route.targets.end();
  });
}

/// The backends of a canary that is a part of its pool.
void add_part(RouteCanary& canary, const RouteTarget& target, const PoolSet& pool_set) {
  const auto entry = std::ranges::find_if(pool_set.pools(), [&](const PoolSet::PoolEntry& each) {
    return each.state->config().name == target.pool;
  });
  if (entry == pool_set.pools().end()) return;
  for (const BackendPtr& backend : entry->state->backends()) {
    if (has_labels(backend->spec().config.labels, target.labels))
      canary.backends.insert(backend->spec().address);
  }
  canary.is_served = [state = entry->state, labels = target.labels] {
    return std::ranges::any_of(state->backends(), [&](const BackendPtr& backend) {
      return has_labels(backend->spec().config.labels, labels) && backend->state().in_rotation();
    });
  };
}

ByRoute<RouteCanary> canaries_of(const std::vector<RouteConfig>& routes, const PoolSet& pool_set) {
  return {routes, [&](const RouteConfig& route) -> std::optional<RouteCanary> {
            const PoolSet::Canary* const canary =
                route.canary ? pool_set.canary_of(route.name) : nullptr;
            if (canary == nullptr) return std::nullopt;
            const std::size_t number = canary_target_of(route);
            const RouteTarget& target = route.targets[number];
            RouteCanary found{.trial = canary->trial,
                              .route = route.name,
                              .target = route.canary->target,
                              .pool = target.pool,
                              .backends = {},
                              .is_served = {},
                              .number = static_cast<std::uint32_t>(number)};
            if (!target.labels.empty()) add_part(found, target, pool_set);
            return found;
          }};
}

bool has_mirror(const RouteConfig& route) { return !route.mirror.pool.empty(); }

/// True if backends get other values in their bodies than clients gave.
bool rewrites(const PoolConfig& pool) {
  return adds_usage(pool) || renames(pool) || !pool.body.empty();
}

}  // namespace

/// Builds the list from the innermost filter to the outermost: a line and its reason for each.
// Long: the order of the filters is in one place.
FilterChain::FilterChain(const Config& config, PlanPools& pools, const PoolSet& pool_set,
                         QuotaStore* quota_store,
                         const std::shared_ptr<RedisAnswers>& shared_answers,
                         const WorkerContext& worker, std::uint64_t seed,
                         const PlacementNeeds& needs, bool reads_bodies, AccessTable* access,
                         Handler& placing, MirrorFilter::PlanSource plan)
    : prices_(config),
      body_rules_(config),
      path_rewrites_(path_rewrites_of(config.routes)),
      response_fields_(config.routes),
      cors_(config.routes),
      canaries_(canaries_of(config.routes, pool_set)),
      compression_(worker.loop, config.routes),
      error_pages_(config.routes, pool_set.error_pages()),
      access_log_(worker.recorder, canaries_.empty() ? nullptr : &canaries_,
                  error_pages_.empty() ? nullptr : &error_pages_),
      grpc_(worker.loop),
      forwarding_headers_(seed, config.listeners),
      request_fields_(config.routes),
      path_rewrite_(path_rewrites_) {
  if (access != nullptr) authorization_.emplace(access->filter(), *access);
  if (reads_bodies) {
    observe_.emplace(worker.loop, worker.metrics(), worker.metrics_registry.label_index(),
                     pool_set.token_estimates());
  }
  if (std::ranges::any_of(config.routes, has_mirror))
    mirror_.emplace(config, pools, worker, mix(seed + 2), std::move(plan));
  if (mirror_ && reads_bodies) {
    inspect_copies_.emplace(worker.metrics(), pool_set.token_estimates(),
                            inspection_options(config, body_rules_.members()), worker.held_bodies,
                            needs, worker.windows, nullptr);
  }
  std::optional<LimitsFilter::Counting> counting;
  if (LimitUse* const use = pool_set.limit_use()) counting.emplace(prices_, *use, quota_store);
  const bool limits_routes = std::ranges::any_of(
      config.rate_limits, [](const RateLimitConfig& each) { return !each.routes.empty(); });
  if (limits_routes) route_limits_.emplace(config, LimitTable::of_routes(config), *counting);
  for (PlanPool& pool : pools.list())
    build(config, pool, pool_set, shared_answers, worker, counting ? &*counting : nullptr);
  first_ = &placing;
  // Answer: what models report is counted for the pool that answers, whatever the route.
  if (observe_) first_ = in_front_of(*first_, *observe_);
  // Limits: behind what tells how much a request asks for, in front of what counts its answer.
  if (counting && !LimitTable(config).is_empty())
    first_ = in_front_of(*first_, limits_.emplace(config, *counting));
  if (reads_bodies) {
    // Body: what a request asks of a model is known where its route, pool or backend is chosen.
    first_ =
        in_front_of(*first_, inspect_.emplace(worker.metrics(), pool_set.token_estimates(),
                                              inspection_options(config, body_rules_.members()),
                                              worker.held_bodies, needs, worker.windows,
                                              path_rewrites_.empty() ? nullptr : &path_rewrites_));
  }
  // Auth: a request without a credential must not make us read its body, nor get a hint.
  if (access != nullptr) first_ = in_front_of(*first_, access->filter());
  // Trace: in front of what may wait or refuse, so that such requests have one too.
  if (config.tracing.is_on())
    first_ = in_front_of(*first_, trace_.emplace(mix(seed + 1), config.tracing));
  // Origin: the filters behind this one and the backend see no origin that a client has forged.
  first_ = in_front_of(*first_, forwarding_headers_);
  // gRPC: whatever fails behind this filter, a gRPC client gets a status before its deadline.
  first_ = in_front_of(*first_, grpc_);
  // Log: every request is answered, counted and logged, whatever fails behind this filter.
  first_ = in_front_of(*first_, access_log_);
  // Compression: behind it, answers are read and logged as they are, errors included.
  if (compression_.is_needed()) first_ = in_front_of(*first_, compression_);
  // Pages: also those of other origins that a route names may read the errors that the log answers.
  if (cors_.is_needed()) first_ = in_front_of(*first_, cors_);
  // Fields of the response: outermost, so that every answer has those of its route, and the last
  // word is the file's.
  if (response_fields_.is_needed()) first_ = in_front_of(*first_, response_fields_);
}

/// The part of the list for one pool, and for the routes to it.
// Long: the order of the filters is in one place.
void FilterChain::build(const Config& config, PlanPool& pool, const PoolSet& pool_set,
                        const std::shared_ptr<RedisAnswers>& shared_answers,
                        const WorkerContext& worker, const LimitsFilter::Counting* counting) {
  pool.first = pool.forwarder;
  // Batches: of bodies as backends get them. What they are answered is not observed here, but the
  // part of each request further out: each counts for itself.
  if (pool.config.batching) {
    pool.first = &batchings_.emplace_back(*pool.first, pool.config, pool.forwarder->state(),
                                          body_rules_, pool_set.token_estimates(), worker,
                                          worker.metrics().pool(pool.index).batching);
  }
  // Budget: behind what answers without a backend, and what names the model as it is priced; in
  // front of what counts the answer. Copies for a mirror count too.
  if (counting != nullptr && !pool.config.budget.empty()) {
    if (observe_) pool.first = in_front_of(*pool.first, *observe_);
    pool.first = in_front_of(*pool.first, budgets_.emplace_back(config, pool.config, *counting));
  }
  // Rewrite: values of the body that only this pool's backends are to see.
  if (rewrites(pool.config) || body_rules_.concern_all_pools()) {
    pool.first = in_front_of(
        *pool.first, rewrites_.emplace_back(pool.config, adds_usage(pool.config), body_rules_));
  }
  const bool is_mirror = std::ranges::any_of(config.routes, [&](const RouteConfig& route) {
    return route.mirror.pool == pool.config.name;
  });
  // Copies: their pool may inspect where the client's does not. What models report to them is
  // counted for it. Their answers come from its backends alone.
  if (is_mirror) {
    pool.mirrored = observe_ ? in_front_of(*pool.first, *observe_) : pool.first;
    if (inspect_copies_) pool.mirrored = in_front_of(*pool.mirrored, *inspect_copies_);
  }
  // Answers again: what is kept or shared is what clients get of a model, but was observed once,
  // for the request that a backend got; before another pool is asked.
  if (observe_ && reuses_answers(pool.config)) {
    pool.first = in_front_of(*pool.first, *observe_);
    pool.first = &reuses_.emplace_back(
        worker.loop, *pool.first, pool.config, pool.forwarder->state(), body_rules_,
        worker.metrics().pool(pool.index), shared_answers, worker.memory_pressure);
  }
  // Fallback: the other pool gets the body as the client sent it, and changes it in its own way.
  if (pool.fallback != nullptr) {
    pool.first = &fallbacks_.emplace_back(*pool.first, *pool.fallback, pool.config.fallback.when,
                                          worker.models, worker.metrics());
  }
  pool.entry = pool.first;
  // Mirror: once for each request, also where a pool falls back to another; behind what may refuse
  // the request, and with the path and the fields that backends get.
  if (mirror_ && leads_to(pool, config, has_mirror))
    pool.entry = in_front_of(*pool.entry, *mirror_);
  // Limits of routes: where the route is known; copies for a mirror are not refused for them.
  if (route_limits_) pool.entry = in_front_of(*pool.entry, *route_limits_);
  // Authorization: the route and the model are known; once for each request, so not in front of
  // pools that others fall back to. By the path that backends get.
  if (authorization_) pool.entry = in_front_of(*pool.entry, *authorization_);
  // Path: behind what places the request, by the client's path; once, also where a pool falls back
  // to another.
  if (leads_to(pool, config, [](const RouteConfig& route) { return route.rewrite.has_value(); }))
    pool.entry = in_front_of(*pool.entry, path_rewrite_);
  // Fields of the request: where its route is known, and its path is still the client's.
  if (leads_to(pool, config,
               [](const RouteConfig& route) { return !route.request_headers.empty(); }))
    pool.entry = in_front_of(*pool.entry, request_fields_);
}

bool rewrites_alike(const PoolConfig& one, const PoolConfig& other) {
  return one.model == other.model && one.model_names == other.model_names &&
         one.body == other.body && adds_usage(one) == adds_usage(other);
}

}  // namespace evenkeel
