#include "proxy/route_table.h"

#include <algorithm>

#include "evenkeel/base/glob.h"
#include "evenkeel/base/hash.h"
#include "evenkeel/config/split_target.h"
#include "evenkeel/http/cors.h"
#include "evenkeel/http/status.h"
#include "evenkeel/upstream/subsets.h"
#include "proxy/model_reach.h"
#include "proxy/request_priority.h"
#include "proxy/session_sources.h"
#include "proxy/split.h"

namespace evenkeel {
namespace {

/// Names of the file have metrics of their own, however many names clients use, and from the start
/// where it says which pool gets their requests.
void pin_models(const Config& config, const PlanPools& pools, LabelIndex& label_index) {
  const auto pin = [&](const std::string& model, const PlanPool& pool) {
    label_index.pin_model(model);
    if (inspects(pool.config)) label_index.add_model_to_pool(model, pool.index);
  };
  for (const PlanPool& pool : pools.list()) {
    for (const std::string& model : pool.config.models) pin(model, pool);
  }
  for (const RouteConfig& route : config.routes) {
    for (const std::string& model : route.match.model) {
      if (is_glob(model)) continue;
      for (const RouteTarget& target : route.targets)
        pin(text_of_glob(model), *pools.find(target.pool));
    }
  }
}

/// Exports the series of a route for its pool and those that it falls back to, as far as chains
/// have a use; the series of routes and pools must not become as many as their product.
void add_answering_pools(std::uint32_t route, const PlanPool* pool, LabelIndex& label_index) {
  constexpr int max_fallbacks = 4;
  for (int i = 0; i <= max_fallbacks && pool != nullptr; ++i, pool = pool->fallback) {
    label_index.add_route_to_pool(route, pool->index);
  }
}

}  // namespace

RouteTable::RouteTable(const Config& config, const PoolSet& pool_set, const PlanPools& pools,
                       LabelUses& label_uses, LabelIndex& label_index, std::uint64_t seed)
    : router_(config.routes, &config.listeners), rng_(seed) {
  pin_models(config, pools, label_index);
  for (const PlanPool& pool : pools.list()) {
    max_call_ = std::max<Duration>(max_call_, pool.config.timeouts.grpc_deadline);
    reads_bodies_ |= pool.reads_bodies;
    const auto affinity = affinity_of(pool.config);
    if (affinity && SessionSources(affinity->by, affinity->mode).by_response_id())
      knowing_.push_back(pool.forwarder);
  }
  for (const RouteConfig& route : config.routes) {
    add_route(route, pool_set, pools, label_uses, label_index);
    reads_bodies_ |= route.match.looks_into_body();
  }
  routes_of_file_ = routes_.size();
  for (const ListenerConfig& listener : config.listeners) {
    if (!listener.endpoint_picker || listener.endpoint_picker->pool.empty()) continue;
    RouteConfig route{.name = listener.name, .match = {}, .targets = {}};
    route.targets.push_back({listener.endpoint_picker->pool, 1});
    picker_routes_.emplace(listener.name, routes_.size());
    add_route(route, pool_set, pools, label_uses, label_index);
    routes_.back().name = listener.name;  // which outlives it
    routes_.back().sticky_header = {};
  }
  reads_bodies_ |= may_limit_models(config);
  has_auth_ = config.auth.has_value();
  limits_by_model_ = std::ranges::any_of(config.rate_limits, [](const RateLimitConfig& each) {
    return !each.models.empty() || std::ranges::find(each.by, "model") != each.by.end();
  });
}

void RouteTable::add_route(const RouteConfig& config, const PoolSet& pool_set,
                           const PlanPools& pools, LabelUses& label_uses, LabelIndex& label_index) {
  const PoolSet::Canary* const canary = config.canary ? pool_set.canary_of(config.name) : nullptr;
  Route route{.name = config.name,
              .index = label_uses.route(config.name),
              .grpc_only = !config.match.grpc.empty(),
              .priority = config.priority,
              .changes_bodies = !config.body.empty(),
              .may_answer = config.answers_itself() || config.cors,
              .respond = config.respond ? &*config.respond : nullptr,
              .redirect = config.redirect ? std::optional<Redirect>(config) : std::nullopt,
              .targets = {},
              .canary = canary == nullptr ? nullptr : canary->trial.get(),
              .canary_target = canary == nullptr ? 0 : canary_target_of(config),
              .sticky_header = config.sticky.header,
              .salt = hash_of(config.name)};
  std::uint32_t sum = 0;
  for (const RouteTarget& target : config.targets) {
    const PlanPool& pool = *pools.find(target.pool);
    const PoolState& state = pool.forwarder->state();
    add_answering_pools(route.index, &pool, label_index);
    route.renames |= pool.renames;
    route.splits_by_body |= config.targets.size() > 1 && pool.reads_bodies;
    route.targets.push_back(
        {.pool = &pool,
         .subset = state.backend_set().number_of(subset_of(target)),
         .session_subset = state.backend_set().number_of(session_subset_of(config, target.pool)),
         .cumulative_weight = sum += target.weight});
  }
  routes_.push_back(std::move(route));
}

std::optional<RouteChoice> RouteTable::find(const Request& request) const {
  if (!picker_routes_.empty()) [[unlikely]] {
    const auto found = picker_routes_.find(request.info.identity.listener);
    if (found != picker_routes_.end())
      return RouteChoice{.index = found->second, .needs_body = false};
  }
  return router_.route(request);
}

void RouteTable::route_by_head(Request& request, const RouteChoice& choice) {
  const Route& route = routes_[choice.index];
  if (choice.needs_body || route.splits_by_body) {
    request.info.identity.routing = {.state = RouteState::open,
                                     .reads_body = true,
                                     .needs_body = choice.needs_body,
                                     .route = static_cast<std::uint32_t>(choice.index)};
    request.info.identity.is_streaming = route.grpc_only;
    request.info.timings.max_call = max_call_;
    return;
  }
  if (takes_fixed_response(request, choice.index)) return;
  const auto known = is_of_file(choice.index) ? place_of_response(request) : std::nullopt;
  put_in(request, known ? *known : place_on(choice.index, request));
}

void RouteTable::route_by_body(Request& request) {
  Routing& routing = request.info.identity.routing;
  const auto route = router_.route_inspected(request, routing.route);
  if (route && takes_fixed_response(request, *route)) return;
  if (const auto known = place_of_response(request)) return put_in(request, *known);
  if (!route) {
    routing.state = RouteState::none;
    return;
  }
  put_in(request, place_on(*route, request));
}

bool RouteTable::takes_fixed_response(Request& request, std::size_t route) const {
  if (!routes_[route].may_answer) [[likely]]
    return false;
  if (!has_fixed_response(route) && preflighted_method(request).empty()) return false;
  request.info.identity.routing = {.state = RouteState::fixed,
                                   .route = static_cast<std::uint32_t>(route)};
  name_route(request.info.identity, route);
  return true;
}

Result<Response> RouteTable::fixed_response(const Request& request) const {
  const Route& route = routes_[request.info.identity.routing.route];
  if (route.redirect) return route.redirect->answer(request);
  Response response;
  if (route.respond == nullptr) {
    response.status = 204;  // to a preflight
    return response;
  }
  const RespondConfig& config = *route.respond;
  response.status = config.status;
  response.fields.add("content-type", response.fields.keep(config.content_type));
  allow_origin(request, response);
  response.body = make_body(config.body);
  return response;
}

void RouteTable::name_route(RequestIdentity& identity, std::size_t route) const {
  identity.route = routes_[route].name;
  identity.route_index = routes_[route].index;
}

/// Gives the request its route and its pool.
void RouteTable::put_in(Request& request, const Place& place) const {
  const Route& route = routes_[place.route];
  const Target& target = route.targets[place.target];
  RequestIdentity& identity = request.info.identity;
  identity.routing = {.state = RouteState::routed,
                      .reads_body = target.pool->reads_bodies,
                      .route = static_cast<std::uint32_t>(place.route),
                      .target = static_cast<std::uint32_t>(place.target)};
  identity.route = route.name;
  identity.route_index = route.index;
  identity.pool = target.pool->config.name;
  identity.pool_index = target.pool->index;
  identity.subset = target.subset;
  // Sessions leave a canary with its trial.
  const bool is_withdrawn = route.canary != nullptr && route.canary->has_ended();
  identity.session_subset = is_withdrawn ? target.subset : target.session_subset;
  identity.is_streaming = route.grpc_only;
  identity.priority = priority_of(request, route.priority);
  RequestTimings& timings = request.info.timings;
  timings.max_call = target.pool->config.timeouts.grpc_deadline;
  if (timings.deadline != never) {
    timings.deadline = std::min(timings.deadline, timings.started + timings.max_call);
  }
}

/// A conversation stays with its target; a request of none goes to one at random. What would go to
/// a canary whose trial has ended goes to the other targets by their weights.
RouteTable::Place RouteTable::place_on(std::size_t number, const Request& request) {
  const Route& route = routes_[number];
  if (route.targets.size() == 1) return {.route = number, .target = 0};
  const auto conversation = conversation_of(request, route.sticky_header);
  const auto draw = [&](std::uint32_t sum) {
    return conversation ? split_point(*conversation, route.salt, sum) : rng_.below(sum);
  };
  const auto target_at = [&](std::uint32_t point) {
    const auto target = std::ranges::find_if(
        route.targets, [point](const Target& each) { return point < each.cumulative_weight; });
    return static_cast<std::size_t>(target - route.targets.begin());
  };
  const std::uint32_t sum = route.targets.back().cumulative_weight;
  std::size_t target = target_at(draw(sum));
  const bool is_withdrawn =
      route.canary != nullptr && target == route.canary_target && route.canary->has_ended();
  if (is_withdrawn) [[unlikely]] {
    const std::uint32_t begin = target == 0 ? 0 : route.targets[target - 1].cumulative_weight;
    const std::uint32_t share = route.targets[target].cumulative_weight - begin;
    const std::uint32_t point = draw(sum - share);
    target = target_at(point < begin ? point : point + share);
  }
  return {.route = number, .target = target};
}

/// The first route that may take a request about a response, or one that goes on from it, to the
/// pool that knows the response. Nothing if none does.
std::optional<RouteTable::Place> RouteTable::place_of_response(const Request& request) const {
  if (knowing_.empty()) return std::nullopt;
  const auto id = find_response_id(request);
  if (!id) return std::nullopt;
  const auto knows = [&](const Forwarder* pool) { return pool->knows(*id); };
  if (std::ranges::none_of(knowing_, knows)) return std::nullopt;
  const auto target_of = [&](std::size_t route) {
    return std::ranges::find_if(routes_[route].targets,
                                [&](const Target& each) { return knows(each.pool->forwarder); });
  };
  const auto route = router_.first_by_head(
      request, [&](std::size_t each) { return target_of(each) != routes_[each].targets.end(); });
  if (!route) return std::nullopt;
  return Place{
      .route = *route,
      .target = static_cast<std::size_t>(target_of(*route) - routes_[*route].targets.begin())};
}

/// True if what follows decides which pool gets the request, or has to be changed for that pool.
bool RouteTable::need_more(const Request& request) const {
  const Routing& routing = request.info.identity.routing;
  // The last one of several names of models in a body is the one that counts, for what a tenant may
  // use, for whether a credential is needed, and for limits by model.
  const RequestTenant& tenant = request.info.identity.tenant;
  const bool may_lack_credential =
      has_auth_ && routing.state == RouteState::open && tenant.name.empty();
  if (tenant.has_model_limit() || may_lack_credential || limits_by_model_) return true;
  const InferenceTask task = request.info.inference->request.task;
  const bool is_text = task == InferenceTask::chat || task == InferenceTask::completion;
  if (is_text && (tenant.max_tokens > 0 || !tenant.cache_salt.empty())) return true;
  const bool names_model = !request.info.inference->request.model.empty();
  const auto needs = [&](bool renames, const PlanPool& pool) {
    return (renames && !names_model) || (is_text && pool.changes_bodies) ||
           pool.forwarder->awaits_session(request);
  };
  if (routing.state == RouteState::routed) {
    const PlanPool& pool = pool_of(routing);
    return (is_text && routes_[routing.route].changes_bodies) || needs(pool.renames, pool);
  }
  const PossibleRoutes possible = router_.possible_routes(request);
  return std::ranges::any_of(possible.routes, [&](std::size_t each) {
    const Route& route = routes_[each];
    const bool changes = std::ranges::any_of(
        route.targets, [&](const Target& target) { return needs(route.renames, *target.pool); });
    return changes || (is_text && route.changes_bodies) ||
           (possible.open && routes_[possible.routes.front()].targets != route.targets);
  });
}

}  // namespace evenkeel
