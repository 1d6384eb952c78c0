// Seldon's MLServer.
#include "inference/detection_evidence.h"
#include "inference/engines/engines.h"

namespace evenkeel {
namespace {

bool has_name(const DetectionEvidence& responses) {
  return DetectionEvidence::text_at(responses.object_at("/v2"), "name") == "mlserver";
}

constexpr EvidenceRule rules[] = {{"/v2 has its name", has_name}};

/// A GET is a health check or a poll of metrics.
constexpr LabelMatcher inference_requests[] = {{"method", "POST"}};

/// Requests over HTTP only: those over gRPC are counted when they end.
constexpr Series series[] = {
    {.name = "rest_server_requests_in_progress",
     .quantity = Quantity::running,
     .matchers = inference_requests},
    {.name = process_start_time, .quantity = Quantity::start_time, .aggregation = Aggregation::max},
};

constexpr MetricsPort ports[] = {{8080, 8082}, {8081, 8082}};

}  // namespace

/// Ready means that all models are; a model that is unloaded later answers 404 while the server
/// stays ready.
const Engine mlserver_engine{
    .name = "mlserver",
    .detection = {.rules = rules},
    .health = kserve_health,
    .metrics = {.path = "/metrics", .series = series, .ports = ports},
};

}  // namespace evenkeel
