#include "evenkeel/inference/engine_identity.h"

#include <algorithm>
#include <set>

#include "evenkeel/inference/engine.h"
#include "inference/detection_evidence.h"

namespace evenkeel {
namespace {

constexpr std::string_view identifying_paths[] = {"/v1/models", "/-/routes", "/v2"};
constexpr std::string_view fallback_paths[] = {
    "/version", "/load", "/get_model_info", "/model_info", "/props", "/info", "/ping", "/"};
constexpr std::span<const std::string_view> rounds[] = {identifying_paths, fallback_paths};

/// True for Triton, MLServer and others: {"name": ..., "version": ..., "extensions": [...]}.
bool has_kserve_metadata(const DetectionEvidence& evidence) {
  const DetectionEvidence::Keys& server = evidence.object_at("/v2");
  return server.contains("name") && server.contains("version") && server.contains("extensions");
}

bool reports_loading(const Engine& engine, const DetectionEvidence& evidence) {
  return engine.detection.reports_loading != nullptr && engine.detection.reports_loading(evidence);
}

std::vector<std::string> models_of(const DetectionEvidence& evidence) {
  std::vector<std::string> models;
  std::set<std::string_view> seen;
  for (const ModelCard& card : evidence.cards()) {
    if (models.size() == max_models) break;
    if (!card.id.empty() && seen.insert(card.id).second) models.push_back(card.id);
  }
  return models;
}

/// True if all say no more than "not now": the server, or a proxy in front of it.
bool only_unavailable(const std::vector<DetectionResponse>& responses) {
  return !responses.empty() &&
         std::ranges::all_of(responses, [](const DetectionResponse& response) {
           return response.status >= 502 && response.status <= 504;
         });
}

}  // namespace

std::span<const std::span<const std::string_view>> detection_rounds() { return rounds; }

bool is_conclusive(const DetectionResponse& response) {
  return response.status < 500 || response.status == 501;  // "not implemented"
}

EngineIdentity identify_engine(const std::vector<DetectionResponse>& responses) {
  const DetectionEvidence evidence(responses);
  EngineIdentity identity;
  for (const Engine* engine : engines()) {
    const auto rule = std::ranges::find_if(
        engine->detection.rules, [&](const EvidenceRule& each) { return each.matches(evidence); });
    if (rule == engine->detection.rules.end()) continue;
    identity.engine = engine->name;
    identity.evidence = rule->evidence;
    identity.loading = reports_loading(*engine, evidence);
    break;
  }
  identity.kserve = has_kserve_metadata(evidence);
  identity.models = models_of(evidence);
  identity.loading = identity.loading || only_unavailable(responses);
  const DetectionResponse* list = evidence.at("/v1/models");
  identity.requires_api_key = list != nullptr && (list->status == 401 || list->status == 403);
  return identity;
}

}  // namespace evenkeel
