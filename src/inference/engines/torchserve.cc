// TorchServe.
#include "inference/detection_evidence.h"
#include "inference/engines/engines.h"

namespace evenkeel {
namespace {

using Keys = DetectionEvidence::Keys;

/// True if a Java program's errors come with the /ping that says Healthy: other servers have one.
bool has_ping_and_errors(const DetectionEvidence& responses) {
  const DetectionResponse* ping = responses.at("/ping");
  if (ping == nullptr) return false;
  const bool has_ping = responses.any([&](const DetectionResponse& response, const Keys& keys) {
    const std::string_view status = DetectionEvidence::text_at(keys, "status");
    return &response == ping &&
           (status == "Healthy" || status == "Partial Healthy" || status == "Unhealthy");
  });
  return has_ping && responses.any([](const DetectionResponse& response, const Keys& keys) {
    return response.status >= 400 && keys.contains("code") &&
           DetectionEvidence::text_at(keys, "type").ends_with("Exception");
  });
}

constexpr EvidenceRule rules[] = {{"/ping and its errors have its wording", has_ping_and_errors}};

/// The GPUs of its host. It has no gauge of waiting requests: QueueTime is the wait of one request.
constexpr Series series[] = {
    {.name = "GPUUtilization",
     .quantity = Quantity::gpu_utilization_ratio,
     .aggregation = Aggregation::mean,
     .scale = percent},
    {.name = "GPUMemoryUsed", .quantity = Quantity::gpu_memory_used_bytes, .scale = mebibyte},
    {.name = "GPUMemoryUtilization",
     .quantity = Quantity::gpu_memory_ratio,
     .aggregation = Aggregation::mean,
     .scale = percent},
};

constexpr MetricsPort ports[] = {{8080, 8082}, {7070, 8082}};

}  // namespace

/// /ping answers 500 for "not ready". It covers all models at once, and says Healthy even if one
/// has no worker.
const Engine torchserve_engine{
    .name = "torchserve",
    .detection = {.rules = rules},
    .health = {.path = "/ping",
               .listing = ModelListing::torchserve,
               .token = TokenProbe::none,
               .not_ready_status = 500,
               .path_covers_all_models = true,
               .timeout = std::chrono::seconds(5)},  // it waits for a worker
    .metrics = {.path = "/metrics",
                .series = series,
                .required_option = "metrics_mode=prometheus",
                .ports = ports},
    .refusals = {.overload = true},
};

}  // namespace evenkeel
