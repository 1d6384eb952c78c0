// Ray Serve.
#include <algorithm>

#include "inference/detection_evidence.h"
#include "inference/engines/engines.h"

namespace evenkeel {
namespace {

bool has_routes(const DetectionEvidence& responses) {
  const DetectionEvidence::Keys& routes = responses.object_at("/-/routes");
  return !routes.empty() && std::ranges::all_of(routes, [](const auto& route) {
    return route.first.starts_with('/') && !route.second.empty();
  });
}

bool has_no_routes_yet(const DetectionEvidence& responses) {
  const DetectionResponse* response = responses.at("/-/routes");
  return response != nullptr && response->status == 503 &&
         (response->body.starts_with("This node is being drained") ||
          response->body.starts_with("Route table is not populated yet"));
}

/// True for the 404 of Ray's proxy at a path without an application, as before the first starts.
bool has_not_found_text(const DetectionEvidence& responses) {
  return responses.any([](const DetectionResponse& response, const DetectionEvidence::Keys&) {
    return response.status == 404 &&
           response.body.find("/-/routes for available") != std::string::npos;
  });
}

constexpr EvidenceRule rules[] = {
    {"/-/routes lists its applications", has_routes},
    {"/-/routes says that there are no routes", has_no_routes_yet},
    {"an error refers to /-/routes", has_not_found_text},
};

/// The counts of the engine in a replica are preferred to those of Ray's proxies, which count a
/// request once for each deployment that it passes. A node with several replicas has a series each.
constexpr Series series[] = {
    {.name = "ray_vllm_num_requests_running", .quantity = Quantity::running},
    {.name = "ray_vllm_num_requests_waiting", .quantity = Quantity::waiting},
    {.name = "ray_vllm_kv_cache_usage_perc",
     .quantity = Quantity::kv_cache_ratio,
     .aggregation = Aggregation::max},
    {.name = "ray_vllm_gpu_cache_usage_perc",
     .quantity = Quantity::kv_cache_ratio,
     .aggregation = Aggregation::max,
     .preference = 1},
    {.name = "ray_serve_replica_processing_queries",
     .quantity = Quantity::running,
     .preference = 1},
    {.name = "ray_serve_deployment_queued_queries", .quantity = Quantity::waiting, .preference = 1},
};

}  // namespace

/// /-/healthz is the proxy's and says "success" without any application. /-/routes lists an
/// application that is starting, and requests wait for it.
/// /metrics at the serving port would be a path of some application.
const Engine ray_engine{
    .name = "ray",
    .synonyms = "rayserve rayllm",
    .detection = {.rules = rules},
    .health = {.path = "/-/routes",
               .empty_object_means_loading = true,
               .timeout = std::chrono::seconds(5)},  // it waits for a replica
    .metrics = {.path = "/metrics", .series = series, .separate_port = true},
    .refusals = {.overload = true},
    .keep_alive_idle = std::chrono::seconds(60),  // its proxy closes after 90 s
};

}  // namespace evenkeel
