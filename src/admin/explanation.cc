#include "admin/explanation.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "admin/decision_document.h"
#include "admin/requests_document.h"
#include "evenkeel/config/split_target.h"
#include "evenkeel/inference/api_paths.h"
#include "evenkeel/proxy/router.h"
#include "evenkeel/upstream/subsets.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_routes = 64;  // that a document lists

/// Returns the routes up to the one that takes the request, each with the first condition that the
/// request does not meet.
JsonValue::List routes_document(const std::vector<RouteConfig>& routes,
                                const std::vector<Mismatch>& mismatches) {
  JsonValue::List documents;
  for (std::size_t i = 0; i < std::min(mismatches.size(), max_routes); ++i) {
    const bool takes = mismatches[i] == Mismatch::none;
    documents.emplace_back(
        JsonValue::Object{{"route", routes[i].name},
                          {"mismatch", takes ? JsonValue() : JsonValue(to_string(mismatches[i]))}});
    if (takes) break;
  }
  return documents;
}

/// The request has the task of its path. What else its body says is not known: conditions on that
/// count as met.
std::vector<Mismatch> mismatches_of(const Config& config, const HypotheticalRequest& hypothetical) {
  Request request;
  request.method = hypothetical.method;
  request.authority = hypothetical.host;
  request.path = hypothetical.path;
  const std::string_view path =
      std::string_view(hypothetical.path).substr(0, hypothetical.path.find('?'));
  const ApiPath* const api = api_path_of(path);
  if (api != nullptr || !hypothetical.model.empty()) {
    request.info.inference = std::make_unique<InferenceInfo>();
    InferenceRequest& asked = request.info.inference->request;
    asked.model = hypothetical.model;
    if (api != nullptr) asked.task = api->task;
    request.info.inference->rest_unread = true;
  }
  return Router(config.routes, &config.listeners).mismatches(request);
}

JsonValue candidate_document(const PickCandidate& candidate) {
  return JsonValue::Object{{"backend", candidate.backend},
                           {"state", candidate.state},
                           {"cost", candidate.cost},
                           {"in_flight", candidate.in_flight},
                           {"weight", candidate.weight},
                           {"running", candidate.polled.running},
                           {"waiting", candidate.polled.waiting},
                           {"kv_cache_ratio", candidate.polled.kv_cache_ratio}};
}

JsonValue pick_document(const PoolState& pool, const PickRecord& record, Instant now) {
  JsonValue::List candidates;
  for (const PickCandidate& each : record.candidates)
    candidates.push_back(candidate_document(each));
  return JsonValue::Object{{"pool", pool.config().name},
                           {"picker", pool.config().picker.name},
                           {"age_seconds", seconds_of(now - record.time)},
                           {"state", record.how},
                           {"backend", record.backend},
                           {"waited_seconds", seconds_of(record.waited)},
                           {"considered", record.considered},
                           {"candidates", std::move(candidates)}};
}

/// True if no route took the request.
bool found_no_route(const RecentRequest& request) {
  const std::string_view reason = request.reason.view();
  return request.has_failed &&
         (reason == to_string(Fault::no_route) || reason == to_string(Fault::method_not_allowed) ||
          reason == to_string(Fault::model_not_found));
}

/// Returns what the pool of the target would choose now, or a note why that is not known.
JsonValue target_document(const PoolState& pool, const RouteTarget& target, bool is_withdrawn,
                          Instant now) {
  JsonValue document;
  document.add("pool", target.pool);
  document.add("weight", target.weight);
  if (is_withdrawn) document.add("withdrawn", true);
  document.add("picker", pool.config().picker.name);
  if (pool.config().picker.has_scheduler()) {
    document.add("pick", nullptr);
    document.add("note", "decided by the prompt and the queue");
    return document;
  }
  const std::uint32_t number = pool.backend_set().number_of(subset_of(target));
  const Hint hint{.subset = number, .now = now};
  const auto picker =
      number == 0 ? pool.new_picker(0) : pool.backend_set().subset(number).new_picker(0);
  const BackendPtr* const backend = picker->pick(hint);
  if (backend == nullptr) {
    document.add("pick", nullptr);
    document.add("note", "no backend can take it now");
    return document;
  }
  const PickRecord record = describe_pick(pool, hint, *picker, **backend);
  const bool compares = !record.candidates.empty() && record.candidates.front().cost.has_value();
  document.add("pick", compares ? pick_document(pool, record, now) : JsonValue());
  document.add("note", compares ? JsonValue() : JsonValue("decided by turn, or by its key"));
  return document;
}

}  // namespace

std::optional<JsonValue> explain_request(const RuntimeView& view, std::string_view request_id) {
  const PoolSet& pool_set = *view.status->pool_set;
  const auto request = find_request(*view.runtime.metrics_registry, request_id);
  JsonValue::List attempts = decisions_of(pool_set, request_id, view.now);
  for (const PoolSet::PoolEntry& pool : pool_set.pools()) {
    for (const PickRecord& each : pool.state->picks().find(request_id)) {
      attempts.push_back(pick_document(*pool.state, each, view.now));
    }
  }
  if (!request && attempts.empty()) return std::nullopt;
  JsonValue document;
  document.add("request_id", request_id);
  document.add("ended", request ? request_document(*request) : JsonValue());
  if (request && found_no_route(*request)) {
    const Config& config = *view.status->config;
    const RecentRequest::Failure& failure = request->failure;
    const auto mismatches = mismatches_of(config, {.method = std::string(failure.method.view()),
                                                   .host = std::string(failure.host.view()),
                                                   .path = std::string(failure.path.view()),
                                                   .model = std::string(request->model.view())});
    document.add("routes", routes_document(config.routes, mismatches));
  }
  document.add("attempts", std::move(attempts));
  return document;
}

JsonValue explain_hypothetical(const RuntimeView& view, const HypotheticalRequest& request) {
  const Config& config = *view.status->config;
  const std::vector<Mismatch> mismatches = mismatches_of(config, request);
  const auto found = std::ranges::find(mismatches, Mismatch::none);
  JsonValue document;
  document.add("routes", routes_document(config.routes, mismatches));
  if (found == mismatches.end()) {
    document.add("route", nullptr);
    document.add("pools", JsonValue::List());
    return document;
  }
  const RouteConfig& route = config.routes[static_cast<std::size_t>(found - mismatches.begin())];
  JsonValue::List pools;
  const PoolSet::Canary* const canary =
      route.canary ? view.status->pool_set->canary_of(route.name) : nullptr;
  for (const RouteTarget& target : route.targets) {
    const auto entry = std::ranges::find_if(
        view.status->pool_set->pools(),
        [&](const PoolSet::PoolEntry& each) { return each.state->config().name == target.pool; });
    if (entry == view.status->pool_set->pools().end()) continue;
    const bool is_withdrawn =
        canary != nullptr && canary->trial->has_ended() && name_of(target) == canary->config.target;
    pools.push_back(target_document(*entry->state, target, is_withdrawn, view.now));
  }
  document.add("route", route.name);
  document.add("pools", std::move(pools));
  return document;
}

}  // namespace evenkeel
