#include "proxy/fallback.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "proxy/pool_assignment.h"

namespace evenkeel {
namespace {

/// Why the pool could not take the request, of which no backend has seen anything. Nothing: one may
/// have, or the request is at fault.
std::optional<FallbackReason> reason_of(const Error& error) {
  switch (error.fault) {
    case Fault::no_backend: return FallbackReason::down;
    case Fault::queue_full:
    case Fault::queue_timeout: return FallbackReason::saturated;
    case Fault::over_budget: return FallbackReason::over_budget;
    case Fault::connect_failed:
    case Fault::connect_timeout:
    case Fault::tls_failed:
      if (error.side == Side::backend && error.not_processed) return FallbackReason::down;
      return std::nullopt;
    default: return std::nullopt;
  }
}

/// True if the other pool could not serve it either: the first one's answer tells more.
bool is_useless(const Result<Response>& answer) {
  return answer ? answer->status == 404 : answer.error().fault == Fault::over_budget;
}

/// True if the body can be read from its start.
bool is_whole(Request& request) {
  return request.body == nullptr || request.info.outcome.bytes_in == 0 || request.body->rewind();
}

}  // namespace

Task<Result<Response>> Fallback::handle(Request& request) {
  auto result = co_await own_.handle(request);
  if (result || !takes(result.error())) co_return result;
  const PlanPool* const target = target_for(request);
  if (target == nullptr || !is_whole(request)) co_return result;
  const RequestIdentity before = request.info.identity;
  const AttemptList attempts = request.info.outcome.attempts;
  move(request.info, *target);
  auto answer = co_await target->first->handle(request);
  // Otherwise the other pool has fallen back, and has named its own fallback.
  const bool from_target = request.info.identity.pool_index == target->index;
  if (is_useless(answer)) {
    answer = std::move(result);
    assign_pool(request.info.identity, before.pool, before.pool_index, worker_metrics_);
    request.info.outcome.attempts = attempts;
    co_return answer;
  }
  // The other pool has not made the copy of the body that the first one has kept for retries.
  if (request.body != nullptr) {
    request.body->commit(request.info.timings.uploaded != Instant{});
  }
  if (answer && from_target) answer->fields.add("x-evenkeel-fallback", target->config.name);
  co_return answer;
}

bool Fallback::takes(const Error& error) const {
  const auto reason = reason_of(error);
  return reason && std::ranges::find(when_, *reason) != when_.end();
}

/// The first pool down the line that may have the model; null: none.
const PlanPool* Fallback::target_for(const Request& request) const {
  const InferenceInfo* const info = request.info.inference.get();
  const std::string_view model = info == nullptr ? std::string_view() : info->request.model;
  const PlanPool* pool = &target_;
  while (pool != nullptr && !model.empty() && !may_have(pool->config, model)) pool = pool->fallback;
  return pool;
}

bool Fallback::may_have(const PoolConfig& pool, std::string_view model) const {
  if (pool.models.empty() && !pool.model.empty()) return true;  // whatever it is called
  if (pool.model_names.contains(std::string(model))) return true;
  const PoolModels* const known =
      models_ == nullptr || *models_ == nullptr ? nullptr : (*models_)->find(pool.name);
  if (known != nullptr && known->available) return !known->known || known->find(model) != nullptr;
  return pool.models.empty() || std::ranges::find(pool.models, model) != pool.models.end();
}

/// Counts the request for the other pool.
void Fallback::move(RequestInfo& info, const PlanPool& target) const {
  RequestIdentity& identity = info.identity;
  worker_metrics_.pool(identity.pool_index).fallbacks.add();
  assign_pool(identity, target.config.name, target.index, worker_metrics_);
  info.outcome.attempts = AttemptList();  // it has room for those at one pool
  info.outcome.source = AnswerSource::backend;
  if (info.inference == nullptr) return;
  info.inference->refusal = {};
  info.inference->served_model = {};
  info.inference->is_observed = false;  // what another request has had observed was no answer
}

}  // namespace evenkeel
