#include "evenkeel/proxy/plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "evenkeel/base/glob.h"
#include "evenkeel/base/hash.h"
#include "evenkeel/http/status.h"
#include "evenkeel/upstream/subsets.h"
#include "proxy/fallback.h"
#include "proxy/model_directory.h"
#include "proxy/ollama_lists.h"
#include "proxy/pool_assignment.h"
#include "proxy/request_priority.h"
#include "proxy/session_sources.h"
#include "proxy/split.h"
#include "proxy/tenants.h"

namespace evenkeel {
namespace {

/// Where the engine of the backend gives it, which with `engine: auto` is known when it is chosen.
bool adds_usage(const PoolConfig& pool) {
  const bool may_give =
      pool.engine == undetected_engine || engine_named(pool.engine).gives_stream_usage;
  return inspects(pool) && pool.stream_usage == StreamUsage::automatic && may_give;
}

/// The pool's backends get other values than its clients gave.
bool rewrites(const PoolConfig& pool) { return adds_usage(pool) || !pool.model.empty(); }

bool rewrites_alike(const PoolConfig& one, const PoolConfig& other) {
  return one.model == other.model && adds_usage(one) == adds_usage(other);
}

/// In another order, perhaps.
bool have_same_backends(const PoolState& one, const PoolState& other) {
  return one.backends().size() == other.backends().size() &&
         std::ranges::all_of(one.backends(), [&](const BackendPtr& backend) {
           return other.find(backend->load(), 0) != nullptr;
         });
}

/// Bodies are kept up to the size that is inspected, or that some pool keeps for retries.
InspectFilter::Options inspection_options(const Config& config) {
  const std::uint64_t inspected = config.limits.inspected_body_bytes;
  std::uint64_t kept = inspected;
  for (const PoolConfig& pool : config.pools) kept = std::max(kept, pool.retry.replay_bytes);
  for (const RouteConfig& route : config.routes) {
    if (route.retry) kept = std::max(kept, route.retry->replay_bytes);
  }
  return {.max_body_bytes = inspected,
          .held = {.body_bytes = kept, .worker_bytes = config.limits.held_bodies_bytes}};
}

/// Names of the file have metrics of their own, however many names clients use, and from the start
/// where it says which pool gets their requests.
void pin_models(const Config& config, LabelIndex& label_index) {
  const auto pin = [&](const std::string& model, const PoolConfig& pool) {
    label_index.pin_model(model);
    if (inspects(pool)) label_index.add_model_to_pool(model, label_index.pool(pool.name));
  };
  std::map<std::string_view, const PoolConfig*> pools;
  for (const PoolConfig& pool : config.pools) {
    pools.emplace(pool.name, &pool);
    for (const std::string& model : pool.models) pin(model, pool);
  }
  for (const RouteConfig& route : config.routes) {
    for (const std::string& model : route.match.model) {
      if (is_glob(model)) continue;
      for (const RouteTarget& target : route.targets)
        pin(text_of_glob(model), *pools.at(target.pool));
    }
  }
}

/// For calls whose pool is not known yet.
Duration max_grpc_deadline(const Config& config) {
  Duration max{};
  for (const PoolConfig& pool : config.pools) {
    max = std::max<Duration>(max, pool.timeouts.grpc_deadline);
  }
  return max;
}

/// `index`: of LabelIndex.
ForwarderOptions forwarder_options(const PoolConfig& pool, std::uint32_t index,
                                   std::uint64_t max_held_bytes, HeldBodies& held_bodies) {
  ForwarderOptions options{.pool = pool.name,
                           .pool_index = index,
                           .schedules = pool.picker == "expected-time",
                           .slo = pool.slo,
                           .debug_headers = pool.debug_headers,
                           .reads_load_reports = pool.metrics.orca,
                           .retry = RetryPolicy(pool.retry),
                           .engine = &engine_named(pool.engine),
                           .finds_stream_errors = pool.engine != "generic" && pool.engine != "auto",
                           .max_retry_time = pool.timeouts.first_byte,
                           .held_bodies = &held_bodies,
                           .max_held_bytes = max_held_bytes};
  if (!pool.model.empty()) options.served_model = hash_of(pool.model);
  if (pool.picker == "consistent-hash" || pool.shadow_picker == "consistent-hash") {
    options.hash_header = pool.hash.header;
  }
  if (const auto affinity = affinity_of(pool))
    options.sessions = std::make_shared<SessionSources>(affinity->by, affinity->mode);
  return options;
}

/// Refuses requests because memory is scarce.
class Refusing final : public Handler {
 public:
  Task<Result<Response>> handle(Request&) override {
    return Result<Response>(Error{.fault = Fault::out_of_memory,
                                  .detail = "too little memory is left (limits.memory)"});
  }
};

}  // namespace

std::set<std::string> pools_to_list(const Config& config) {
  return ModelReach(config).pools_to_list();
}

Plan::Plan(std::shared_ptr<const Config> config, std::shared_ptr<const PoolSet> pool_set,
           const WorkerContext& worker, const Plan* predecessor)
    : config_(std::move(config)),
      pool_set_(std::move(pool_set)),
      label_uses_(worker.metrics_registry.label_index()),
      links_(*config_, *pool_set_, worker, predecessor == nullptr ? nullptr : &predecessor->links_),
      router_(config_->routes),
      rng_(static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()) + worker.index),
      access_log_(worker.recorder),
      forwarding_headers_(rng_(), config_->listeners),
      worker_metrics_(worker.metrics_registry.worker_metrics(worker.index)),
      inspect_(worker_metrics_, pool_set_->token_estimates(), inspection_options(*config_),
               worker.held_bodies, placement_, worker.windows),
      renewal_(*this, worker.active),
      memory_pressure_(worker.memory_pressure) {
  pin_models(*config_, worker.metrics_registry.label_index());
  for (std::size_t i = 0; i < config_->pools.size(); ++i) {
    add_pool(config_->pools[i], pool_set_->pools()[i], worker);
  }
  follow_fallbacks(worker);
  for (std::size_t i = 0; i < forwarders_.size(); ++i) {
    GrpcFilter& grpc = grpc_.emplace_back(worker.loop, config_->pools[i].timeouts.grpc_deadline);
    Handler& last = *last_handlers_[i];
    // What models report is counted for the pool, whatever the route.
    ObserveFilter& observe =
        observers_.emplace_back(worker.loop, worker_metrics_, worker.metrics_registry.label_index(),
                                pool_set_->token_estimates());
    observed_.push_back(&add_stage(observe, last));
    const bool reads = reads_bodies_[i];
    pool_chains_.push_back(&build_filter_chain(reads ? *observed_.back() : last, grpc, reads));
  }
  for (const RouteConfig& route : config_->routes)
    add_route(route, worker.metrics_registry.label_index());
  if (!config_->tenants.empty()) tenants_ = std::make_unique<Tenants>(*config_, label_uses_);
  GrpcFilter& grpc = grpc_.emplace_back(worker.loop, max_grpc_deadline(*config_));
  handlers_.push_back(std::make_unique<ByBody>(*this));
  by_body_ = &build_filter_chain(*handlers_.back(), grpc, true);
  handlers_.push_back(std::make_unique<Unrouted>(*this));
  unrouted_ = &build_filter_chain(*handlers_.back(), grpc, false);
  handlers_.push_back(std::make_unique<Refusing>());
  refusing_ = &build_filter_chain(*handlers_.back(), grpc, false);
  add_model_directory(worker);
  add_ollama_lists(worker);
}

Plan::~Plan() = default;

/// REQUIRES: the last of `grpc_` is that of no pool.
void Plan::add_model_directory(const WorkerContext& worker) {
  if (worker.models == nullptr) return;
  auto directory = std::make_unique<ModelDirectory>(*config_, *worker.models);
  if (!directory->is_needed()) return;
  model_directory_ = directory.get();
  handlers_.push_back(std::move(directory));
  model_chain_ = &build_filter_chain(*handlers_.back(), grpc_.back(), false);
}

/// REQUIRES: the last of `grpc_` is that of no pool.
void Plan::add_ollama_lists(const WorkerContext& worker) {
  if (config_->pools.size() < 2) return;
  std::vector<OllamaLists::Pool> pools;
  for (std::size_t i = 0; i < config_->pools.size(); ++i) {
    const std::string& name = config_->pools[i].name;
    pools.push_back({.handler = *last_handlers_[i], .name = name, .index = label_uses_.pool(name)});
  }
  auto lists =
      std::make_unique<OllamaLists>(*config_, std::move(pools), worker.loop, worker_metrics_);
  ollama_lists_ = lists.get();
  handlers_.push_back(std::move(lists));
  ollama_chain_ = &build_filter_chain(*handlers_.back(), grpc_.back(), false);
}

/// Whether this is a request for a list of models that no single backend is to answer.
template <class Lists>
bool Plan::is_answered_by(const Lists* lists, Request& request) const {
  if (lists == nullptr || !Lists::is_for(request)) return false;
  const auto route = router_.route_inspected(request);
  std::optional<std::size_t> index;
  if (route) index = *route;
  if (!lists->answers(request, index)) return false;
  if (!index) return true;
  request.info.identity.route = routes_[*index].name;
  request.info.identity.route_index = routes_[*index].index;
  return true;
}

void Plan::add_pool(const PoolConfig& pool, const PoolSet::PoolEntry& pool_entry,
                    const WorkerContext& worker) {
  ForwarderOptions options = forwarder_options(
      pool, label_uses_.pool(pool.name), config_->limits.held_bodies_bytes, worker.held_bodies);
  knows_responses_ |= options.sessions != nullptr && options.sessions->by_response_id();
  auto queue = std::make_unique<Forwarder>(worker.loop, pool_entry.state, rng_(),
                                           links_.targets_of(pool_entry), worker_metrics_,
                                           std::move(options));
  queues_.push_back(queue.get());
  handlers_.push_back(std::move(queue));
  if (rewrites(pool)) {
    Handler& forwarder = *handlers_.back();
    // Values of the body that only this pool's backends are to see.
    add_stage(rewrites_.emplace_back(pool.model, adds_usage(pool)), forwarder);
  }
  forwarders_.push_back(handlers_.back().get());
}

/// Finds what each pool has of those that it falls back to. REQUIRES: the fallbacks form no cycle,
/// as in every loaded file.
void Plan::follow_fallbacks(const WorkerContext& worker) {
  const std::vector<PoolConfig>& pools = config_->pools;
  for (const PoolConfig& pool : pools) pool_numbers_.emplace(pool.name, pool_numbers_.size());
  last_handlers_.resize(pools.size());
  reads_bodies_.resize(pools.size());
  renames_.resize(pools.size());
  std::vector<std::size_t> chain;  // pools whose fallback is to be followed first
  for (std::size_t first = 0; first < pools.size(); ++first) {
    for (std::size_t pool = first; last_handlers_[pool] == nullptr;) {
      chain.push_back(pool);
      const auto next = pool_numbers_.find(pools[pool].fallback);
      if (next == pool_numbers_.end()) break;
      pool = next->second;
    }
    for (; !chain.empty(); chain.pop_back()) {
      const std::size_t pool = chain.back();
      last_handlers_[pool] = forwarders_[pool];
      reads_bodies_[pool] = inspects(pools[pool]);
      renames_[pool] = !pools[pool].model.empty();
      const auto next = pool_numbers_.find(pools[pool].fallback);
      if (next == pool_numbers_.end()) continue;
      const auto& [name, number] = *next;
      reads_bodies_[pool] = reads_bodies_[pool] || reads_bodies_[number];
      renames_[pool] = renames_[pool] || renames_[number];
      Handler& handler = *last_handlers_[number];
      const Fallback::Target target{.handler = handler,
                                    .pool = pools[number],
                                    .pool_index = worker.metrics_registry.label_index().pool(name),
                                    .next = dynamic_cast<const Fallback*>(&handler)};
      handlers_.push_back(
          std::make_unique<Fallback>(*forwarders_[pool], target, worker.models,
                                     worker.metrics_registry.worker_metrics(worker.index)));
      last_handlers_[pool] = handlers_.back().get();
    }
  }
}

/// The pools whose answers a route has: one that it names, and those that it falls back to, as far
/// as chains have a use; the series of routes and pools must not become as many as their product.
void Plan::add_answering_pools(std::uint32_t route, std::size_t number,
                               LabelIndex& label_index) const {
  constexpr int max_fallbacks = 4;
  for (int i = 0; i <= max_fallbacks; ++i) {
    const PoolConfig& pool = config_->pools[number];
    label_index.add_route_to_pool(route, label_index.pool(pool.name));
    const auto next = pool_numbers_.find(pool.fallback);
    if (next == pool_numbers_.end()) return;
    number = next->second;
  }
}

void Plan::add_route(const RouteConfig& route, LabelIndex& label_index) {
  Route plan_route{.name = route.name,
                   .index = label_uses_.route(route.name),
                   .grpc_only = !route.match.grpc.empty(),
                   .retry = {},
                   .slo = nullptr,
                   .priority = route.priority,
                   .targets = {},
                   .sticky_header = route.sticky.header,
                   .salt = hash_of(route.name)};
  if (route.retry) plan_route.retry.emplace(*route.retry);
  if (route.slo != SloConfig{}) plan_route.slo = &route.slo;
  std::uint32_t sum = 0;
  for (const RouteTarget& target : route.targets) {
    const std::size_t number = pool_numbers_.at(target.pool);
    const std::string_view pool = config_->pools[number].name;
    const PoolState& pool_state = *pool_set_->pools()[number].state;
    const std::uint32_t pool_index = label_index.pool(pool);
    add_answering_pools(plan_route.index, number, label_index);
    plan_route.renames |= renames_[number];
    plan_route.splits_by_body |= route.targets.size() > 1 && reads_bodies_[number];
    plan_route.targets.push_back(
        {.first = pool_chains_[number],
         .observed = observed_[number],
         .grpc_deadline = config_->pools[number].timeouts.grpc_deadline,
         .pool = pool,
         .pool_number = number,
         .pool_index = pool_index,
         .subset = pool_state.subset_number(subset_of(target)),
         .session_subset = pool_state.subset_number(session_subset_of(route, target.pool)),
         .cumulative_weight = sum += target.weight});
  }
  plan_route.looks_further = plan_route.splits_by_body || knows_responses_;
  routes_.push_back(std::move(plan_route));
}

/// The filter chain, from the inside out: one line and its reason per filter.
Handler& Plan::build_filter_chain(Handler& last, GrpcFilter& grpc, bool inspects) {
  Handler* first = &last;
  // Reload: a request that has waited for its body goes to no backend that has left meanwhile.
  if (inspects) first = &add_stage(renewal_, *first);
  // Body: what a request asks of a model is known where its pool, route or backend is chosen.
  if (inspects) first = &add_stage(inspect_, *first);
  // Origin: the filters behind this one and the backend see no origin that a client has forged.
  first = &add_stage(forwarding_headers_, *first);
  // gRPC: whatever fails behind this filter, a gRPC client gets a status before its deadline.
  first = &add_stage(grpc, *first);
  // Outermost: every request is answered, counted and logged, whatever fails behind this filter.
  first = &add_stage(access_log_, *first);
  return *first;
}

Handler& Plan::add_stage(Filter& filter, Handler& next) {
  handlers_.push_back(std::make_unique<Stage>(filter, next));
  return *handlers_.back();
}

void Plan::hand_queues_to(const std::shared_ptr<Plan>& successor) {
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    if (!queues_[i]->has_queue()) continue;
    const PoolConfig& own = config_->pools[i];
    const auto same = successor->pool_numbers_.find(own.name);
    Forwarder* other = nullptr;
    if (same != successor->pool_numbers_.end() &&
        rewrites_alike(own, successor->config_->pools[same->second])) {
      other = successor->queues_[same->second];
      if (have_same_backends(queues_[i]->state(), other->state())) other = nullptr;
    }
    queues_[i]->hand_queue_to(other, successor);
  }
}

Task<Result<Response>> Plan::handle(Request& request) {
  if (tenants_ != nullptr) [[unlikely]]
    tenants_->identify(request);
  const bool refuses =
      memory_pressure_ != nullptr && memory_pressure_->get() == MemoryPressure::critical;
  if (refuses) [[unlikely]]
    return refusing_->handle(request);
  if (is_answered_by(model_directory_, request)) [[unlikely]]
    return model_chain_->handle(request);
  if (is_answered_by(ollama_lists_, request)) [[unlikely]]
    return ollama_chain_->handle(request);
  const auto route = router_.route(request);
  if (!route) return unrouted_->handle(request);
  if (route->needs_body || routes_[route->index].looks_further) {
    if (const auto place = place_of_head(request, *route))
      return pass_to(choose_target(request, *place), request);
    request.info.identity.is_streaming = routes_[route->index].grpc_only;
    return by_body_->handle(request);
  }
  return pass_to(choose_target(request, {.route = route->index}), request);
}

/// Nothing: it depends on the body, if there is one.
std::optional<Plan::Place> Plan::place_of_head(const Request& request,
                                               const RouteChoice& route) const {
  if (route.needs_body || routes_[route.index].splits_by_body) return std::nullopt;
  const auto known = place_of_response(request);
  return known ? known : Place{.route = route.index};
}

Task<Result<Response>> Plan::pass_to(const WeightedTarget& target, Request& request) {
  request.info.identity.pool = target.pool;
  request.info.identity.pool_index = target.pool_index;
  request.info.identity.subset = target.subset;
  request.info.identity.session_subset = target.session_subset;
  return target.first->handle(request);
}

/// It keeps both plans: what it passed on its way belongs to the first.
Task<Result<Response>> Plan::Renewal::handle(Request& request, Handler& next) {
  if (active == nullptr || active->get() == &own) return next.handle(request);
  if (request.info.inference == nullptr) return next.handle(request);  // it has not waited
  const std::shared_ptr<Plan>& newest = *active;
  request.info.plan = newest;
  request.info.identity.retry_policy = nullptr;
  request.info.identity.slo = nullptr;
  request.info.identity.tenant = {};
  if (newest->tenants_ != nullptr) newest->tenants_->identify(request);
  return newest->handle_inspected(request);
}

/// The filters have seen the request, and its body is known.
Task<Result<Response>> Plan::handle_inspected(Request& request) {
  const InferenceInfo* const inference = request.info.inference.get();
  if (inference != nullptr && inference->cut_short && needs_body(request)) {
    return Result<Response>(no_room_for_bodies());
  }
  auto place = knows_responses_ ? place_of_response(request) : std::nullopt;
  if (!place) {
    const auto route = router_.route_inspected(request);
    if (!route) return refuse(request);
    place = {.route = *route};
  }
  const WeightedTarget& target = choose_target(request, *place);
  RequestTimings& timings = request.info.timings;
  if (timings.deadline != never) {  // of a gRPC call
    timings.deadline = std::min(timings.deadline, timings.started + target.grpc_deadline);
  }
  assign_pool(request.info.identity, target.pool, target.pool_index, worker_metrics_);
  request.info.identity.subset = target.subset;
  request.info.identity.session_subset = target.session_subset;
  return target.observed->handle(request);
}

/// REQUIRES: no route matches.
Result<Response> Plan::refuse(Request& request) const {
  RouteRefusal refusal = router_.refusal_of(request);
  if (refusal.error.fault == Fault::model_not_found) {
    return model_directory_ != nullptr
               ? model_directory_->not_found(request, refusal.model)
               : model_not_found(refusal.model, std::span<const std::string_view>(),
                                 list_of_models(request));
  }
  const ErrorFormat format = error_format_of(request);
  if (refusal.allow.empty() || format == ErrorFormat::grpc) return std::move(refusal.error);
  request.info.outcome.fault = refusal.error.fault;
  Response response = error_response(refusal.error, format);
  response.fields.add("allow", response.fields.keep(refusal.allow));
  allow_origin(request, response);
  return response;
}

/// Its route depends on its body.
bool Plan::needs_body(const Request& request) const {
  const auto route = router_.route(request);
  return route && route->needs_body;
}

/// Of a request whose body is being read: what follows decides which pool it goes to, or has to be
/// changed for that pool.
bool Plan::needs_more(const Request& request) const {
  const RequestIdentity& identity = request.info.identity;
  const bool names_model = !request.info.inference->request.model.empty();
  if (!identity.pool.empty()) {
    const auto pool = pool_numbers_.find(identity.pool);
    if (pool == pool_numbers_.end()) return false;
    const std::size_t number = pool->second;
    return (renames_[number] && !names_model) || queues_[number]->awaits_session(request);
  }
  const PossibleRoutes possible = router_.possible_routes(request);
  return std::ranges::any_of(possible.routes, [&](std::size_t each) {
    const Route& route = routes_[each];
    const bool awaits_session = std::ranges::any_of(route.targets, [&](const auto& target) {
      return queues_[target.pool_number]->awaits_session(request);
    });
    if (awaits_session || (route.renames && !names_model)) return true;
    return possible.open && !have_same_targets(routes_[possible.routes.front()], route);
  });
}

bool Plan::have_same_targets(const Route& one, const Route& other) {
  return std::ranges::equal(one.targets, other.targets, [](const auto& each, const auto& its) {
    return each.first == its.first && each.subset == its.subset &&
           each.cumulative_weight == its.cumulative_weight;
  });
}

/// Makes it a request of the route.
const Plan::WeightedTarget& Plan::choose_target(Request& request, const Place& place) {
  const Route& plan_route = routes_[place.route];
  RequestIdentity& identity = request.info.identity;
  identity.route = plan_route.name;
  identity.route_index = plan_route.index;
  identity.is_streaming = plan_route.grpc_only;
  identity.priority = priority_of(request, plan_route.priority);
  if (plan_route.retry) identity.retry_policy = &*plan_route.retry;
  identity.slo = plan_route.slo;
  return place.target != nullptr ? *place.target : draw_target(plan_route, request);
}

/// Of a request about a response, or that goes on from one: the first route that may take it to the
/// pool that knows the response. Nothing if none does.
std::optional<Plan::Place> Plan::place_of_response(const Request& request) const {
  const auto id = find_response_id(request);
  if (!id) return std::nullopt;
  const auto knows = [&](const Forwarder* pool) { return pool->knows(*id); };
  if (std::ranges::none_of(queues_, knows)) return std::nullopt;
  const auto target_of = [&](std::size_t route) {
    const std::vector<WeightedTarget>& targets = routes_[route].targets;
    const auto found = std::ranges::find_if(
        targets, [&](const WeightedTarget& each) { return knows(queues_[each.pool_number]); });
    return found == targets.end() ? nullptr : &*found;
  };
  const auto route =
      router_.first_by_head(request, [&](std::size_t each) { return target_of(each) != nullptr; });
  if (!route) return std::nullopt;
  return Place{.route = *route, .target = target_of(*route)};
}

/// A conversation stays with its target; a request of none goes to one at random.
const Plan::WeightedTarget& Plan::draw_target(const Route& plan_route, const Request& request) {
  if (plan_route.targets.size() == 1) return plan_route.targets.front();
  const std::uint32_t sum = plan_route.targets.back().cumulative_weight;
  const auto conversation = conversation_of(request, plan_route.sticky_header);
  const std::uint32_t drawn =
      conversation ? split_point(*conversation, plan_route.salt, sum) : rng_.below(sum);
  const auto target =
      std::find_if(plan_route.targets.begin(), plan_route.targets.end(),
                   [drawn](const WeightedTarget& each) { return drawn < each.cumulative_weight; });
  return *target;
}

}  // namespace evenkeel
