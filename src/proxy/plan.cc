#include "evenkeel/proxy/plan.h"

#include <algorithm>
#include <span>

#include "evenkeel/http/cors.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/http/status.h"
#include "evenkeel/upstream/redis_answers.h"
#include "evenkeel/upstream/redis_quotas.h"
#include "proxy/access_table.h"
#include "proxy/filter_chain.h"
#include "proxy/kept_plans.h"
#include "proxy/model_directory.h"
#include "proxy/ollama_lists.h"
#include "proxy/plan_pools.h"
#include "proxy/route_table.h"
#include "proxy/tenants.h"

namespace evenkeel {
namespace {

/// The directory of models; null if backends answer for themselves.
std::unique_ptr<ModelDirectory> model_directory_of(const Config& config,
                                                   const WorkerContext& worker) {
  if (worker.models == nullptr) return nullptr;
  auto directory = std::make_unique<ModelDirectory>(config, *worker.models);
  return directory->is_needed() ? std::move(directory) : nullptr;
}

/// The quotas of all replicas, with the predecessor's connection if it is to the same server; null:
/// there are none.
std::shared_ptr<RedisQuotas> quotas_of(const PoolSet& pool_set, const WorkerContext& worker,
                                       const std::shared_ptr<RedisQuotas>& before) {
  const auto& options = pool_set.shared_state();
  if (!options || pool_set.limit_use() == nullptr) return nullptr;
  if (before != nullptr && before->options() == *options) return before;
  return std::make_shared<RedisQuotas>(worker.loop, *options, worker.index == 0);
}

/// Where replicas share answers, with the predecessor's connection if it is the same; null:
/// nowhere.
std::shared_ptr<RedisAnswers> answers_of(const Config& config, const PoolSet& pool_set,
                                         const WorkerContext& worker,
                                         const std::shared_ptr<RedisAnswers>& before) {
  const auto& options = pool_set.shared_state();
  const bool is_needed = std::ranges::any_of(
      config.pools, [](const PoolConfig& pool) { return pool.cache && pool.cache->shared; });
  if (!options || !is_needed) return nullptr;
  if (before != nullptr && before->options() == *options) return before;
  return std::make_shared<RedisAnswers>(worker.loop, *options, worker.index == 0);
}

/// True for a request for a list of models that no single backend is to answer.
template <class Lists>
bool is_answered_by(const Lists* lists, const Request& request,
                    const std::optional<RouteChoice>& choice) {
  if (lists == nullptr || !Lists::is_for(request)) return false;
  return lists->answers(request, choice ? std::optional(choice->index) : std::nullopt);
}

}  // namespace

std::set<std::string> pools_to_list(const Config& config) {
  return ModelReach(config).pools_to_list();
}

/// The handler behind the filters.
class Plan::Placing final : public Handler {
 public:
  explicit Placing(Plan& plan) : plan_(plan) {}
  Task<Result<Response>> handle(Request& request) override { return plan_.place(request); }

 private:
  Plan& plan_;
};

Plan::Plan(std::shared_ptr<const Config> config, std::shared_ptr<const PoolSet> pool_set,
           const WorkerContext& worker, const Plan* predecessor,
           std::shared_ptr<const KeyTable> keys, std::shared_ptr<const TokenIssuers> issuers)
    : config_(std::move(config)),
      pool_set_(std::move(pool_set)),
      worker_(worker),
      label_uses_(worker.metrics_registry.label_index()),
      links_(*config_, *pool_set_, worker, predecessor == nullptr ? nullptr : &predecessor->links_),
      placing_(std::make_unique<Placing>(*this)) {
  Rng rng(static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()) + worker.index);
  pools_ = std::make_unique<PlanPools>(*config_, *pool_set_, worker, links_, label_uses_, rng);
  routes_ = std::make_unique<RouteTable>(*config_, *pool_set_, *pools_, label_uses_,
                                         worker.metrics_registry.label_index(), rng());
  if (!config_->tenants.empty() || config_->auth) {
    if (issuers == nullptr) issuers = pool_set_->token_issuers();
    tenants_ =
        std::make_unique<Tenants>(*config_, label_uses_, std::move(keys), std::move(issuers));
  }
  if (config_->auth) access_ = std::make_unique<AccessTable>(*config_, *routes_, *tenants_);
  quotas_ = quotas_of(*pool_set_, worker, predecessor == nullptr ? nullptr : predecessor->quotas_);
  shared_answers_ = answers_of(*config_, *pool_set_, worker,
                               predecessor == nullptr ? nullptr : predecessor->shared_answers_);
  model_directory_ = model_directory_of(*config_, worker);
  if (config_->pools.size() > 1) {
    ollama_lists_ = std::make_unique<OllamaLists>(*config_, *pools_, worker.loop, worker.metrics());
  }
  chain_ =
      std::make_unique<FilterChain>(*config_, *pools_, *pool_set_, quotas_.get(), shared_answers_,
                                    worker, rng(), *routes_, routes_->reads_bodies(), access_.get(),
                                    *placing_, [this] { return weak_from_this().lock(); });
}

Plan::~Plan() = default;

void Plan::adopt(std::shared_ptr<const KeyTable> keys) {
  if (tenants_ != nullptr) tenants_->adopt(std::move(keys));
}

void Plan::adopt(std::shared_ptr<const TokenIssuers> issuers) {
  if (tenants_ != nullptr) tenants_->adopt(std::move(issuers));
}

void Plan::hand_queues_to(const std::shared_ptr<Plan>& successor) {
  pools_->hand_queues_to(*successor->pools_, successor);
}

/// Routes the request by its head; the filters follow.
Task<Result<Response>> Plan::handle(Request& request) {
  const MemoryPressureLevel* const pressure = worker_.memory_pressure;
  if (pressure != nullptr && pressure->get() == MemoryPressure::critical) [[unlikely]] {
    if (tenants_ != nullptr) tenants_->identify(request);
    request.info.identity.routing.state = RouteState::shed;
  } else {
    route(request);
  }
  return chain_->first().handle(request);
}

void Plan::route(Request& request) {
  RequestIdentity& identity = request.info.identity;
  if (tenants_ != nullptr) [[unlikely]]
    tenants_->identify(request);
  const auto choice = routes_->find(request);
  const bool may_be_listed = !choice || (routes_->is_of_file(choice->index) &&
                                         !routes_->has_fixed_response(choice->index));
  const bool is_listed =
      may_be_listed && (is_answered_by(model_directory_.get(), request, choice) ||
                        is_answered_by(ollama_lists_.get(), request, choice));
  if (is_listed) [[unlikely]] {
    identity.routing.state = RouteState::listed;
    if (choice) routes_->name_route(identity, choice->index);
    return;
  }
  if (choice) routes_->route_by_head(request, *choice);
}

/// Passes the request to its pool. The body is known as far as the route or the pool needs it.
Task<Result<Response>> Plan::place(Request& request) {
  RequestInfo& info = request.info;
  const std::uint32_t counted = info.identity.pool_index;
  Plan& plan = newest_for(request);
  if (info.identity.routing.state == RouteState::open) {
    const bool lacks_body = info.inference != nullptr && info.inference->cut_short;
    if (lacks_body && info.identity.routing.needs_body)
      return Result<Response>(no_room_for_bodies());
    plan.routes_->route_by_body(request);
  }
  if (info.identity.pool_index != counted) {
    worker_.metrics().pool(counted).in_flight.remove();
    worker_.metrics().pool(info.identity.pool_index).in_flight.add();
  }
  return plan.answer(request);
}

/// The plan that places the request: a newer one if there is one since its body was awaited, unless
/// that changes members of bodies which were not looked for. The request keeps both, because what
/// it passed on its way belongs to the first.
Plan& Plan::newest_for(Request& request) {
  if (request.info.inference == nullptr || worker_.active == nullptr) return *this;
  const std::shared_ptr<Plan>& newest = *worker_.active;
  if (newest.get() == this || newest->chain_->body_members() != chain_->body_members())
    return *this;
  RequestIdentity& identity = request.info.identity;
  const std::uint32_t counted = identity.tenant.index;
  const auto max_priority = identity.tenant.max_priority;  // a limit may have lowered it
  keep_too(request.info.plan, newest);
  identity.routing = {};
  identity.route = {};
  identity.tenant = {};
  newest->route(request);
  if (max_priority == Priority::batch) identity.tenant.max_priority = max_priority;
  const std::uint32_t tenant = request.info.identity.tenant.index;
  if (counted != 0) worker_.metrics().tenant(counted).in_flight.remove();
  if (tenant != 0) worker_.metrics().tenant(tenant).in_flight.add();
  return *newest;
}

/// Answers a request that is routed as far as it can be.
Task<Result<Response>> Plan::answer(Request& request) {
  if (request.info.identity.routing.state == RouteState::routed) [[likely]]
    return routes_->pool_of(request.info.identity.routing).entry->handle(request);
  return answer_without_pool(request);
}

Task<Result<Response>> Plan::answer_without_pool(Request& request) {
  if (access_ != nullptr) {
    if (auto refusal = access_->filter().admit(request))
      return Result<Response>(std::move(*refusal));
  }
  switch (request.info.identity.routing.state) {
    case RouteState::listed:
      if (ModelDirectory::is_for(request)) return model_directory_->handle(request);
      return ollama_lists_->handle(request);
    case RouteState::fixed:
      if (is_grpc(request)) {
        return Result<Response>(Error{.fault = Fault::no_route,
                                      .side = Side::client,
                                      .detail = "the route of this call answers it over "
                                                "HTTP, which is none to a gRPC call"});
      }
      return routes_->fixed_response(request);
    case RouteState::shed:
      return Result<Response>(Error{.fault = Fault::out_of_memory,
                                    .detail = "too little memory is left (limits.memory)"});
    case RouteState::routed:
    case RouteState::none:
    case RouteState::open: break;
  }
  return refuse(request);
}

/// REQUIRES: no route matches.
Result<Response> Plan::refuse(Request& request) const {
  RouteRefusal refusal = routes_->refusal_of(request);
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

}  // namespace evenkeel
