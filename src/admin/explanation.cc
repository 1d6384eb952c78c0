#include "admin/explanation.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "admin/decision_document.h"
#include "admin/requests_document.h"
#include "evenkeel/proxy/router.h"

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

std::vector<Mismatch> mismatches_of(const Config& config, const ImaginedRequest& imagined) {
  Request request;
  request.method = imagined.method;
  request.authority = imagined.host;
  request.path = imagined.path;
  if (!imagined.model.empty()) {
    request.info.inference = std::make_unique<InferenceInfo>();
    request.info.inference->request.model = imagined.model;
    request.info.inference->rest_unread = true;
  }
  return Router(config.routes).mismatches(request);
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
  return request.is_refused && request.route.view().empty() && !request.refusal.path.view().empty();
}

/// Returns what the picker of the pool would choose now. Of a scheduler, which decides by the
/// prompt and the queue: nothing.
JsonValue imagined_pick(const PoolState& pool, Instant now) {
  if (pool.config().picker.has_scheduler()) return nullptr;
  const auto picker = pool.new_picker(0);
  const Hint hint{.now = now};
  const BackendPtr* const backend = picker->pick(hint);
  if (backend == nullptr) return nullptr;
  return pick_document(pool, describe_pick(pool, hint, picker.get(), **backend, "picked"), now);
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
    const RecentRequest::Refusal& refusal = request->refusal;
    const auto mismatches = mismatches_of(config, {.method = std::string(refusal.method.view()),
                                                   .host = std::string(refusal.host.view()),
                                                   .path = std::string(refusal.path.view()),
                                                   .model = std::string(request->model.view())});
    document.add("routes", routes_document(config.routes, mismatches));
  }
  document.add("attempts", std::move(attempts));
  return document;
}

JsonValue explain_imagined(const RuntimeView& view, const ImaginedRequest& imagined) {
  const Config& config = *view.status->config;
  const std::vector<Mismatch> mismatches = mismatches_of(config, imagined);
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
  for (const RouteTarget& target : route.targets) {
    const auto entry = std::ranges::find_if(
        view.status->pool_set->pools(),
        [&](const PoolSet::PoolEntry& each) { return each.state->config().name == target.pool; });
    if (entry == view.status->pool_set->pools().end()) continue;
    pools.emplace_back(JsonValue::Object{{"pool", target.pool},
                                         {"weight", target.weight},
                                         {"picker", entry->state->config().picker.name},
                                         {"pick", imagined_pick(*entry->state, view.now)}});
  }
  document.add("route", route.name);
  document.add("pools", std::move(pools));
  return document;
}

}  // namespace evenkeel
