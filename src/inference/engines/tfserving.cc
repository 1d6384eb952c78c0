// TensorFlow Serving.
#include "inference/detection_evidence.h"
#include "inference/engines/engines.h"

namespace evenkeel {
namespace {

bool has_error_text(const DetectionEvidence& responses) {
  return responses.any([](const DetectionResponse&, const DetectionEvidence::Keys& keys) {
    return DetectionEvidence::text_at(keys, "error").starts_with("Malformed request: GET /");
  });
}

constexpr EvidenceRule rules[] = {{"an error has its wording", has_error_text}};

constexpr MetricsPort ports[] = {{8500, 8501}};

}  // namespace

/// TensorFlow Serving has only the health of each model (its grpc.health.v1 is SERVING from the
/// start). Its page counts what it has done, not what it is doing: there is no series to poll.
const Engine tfserving_engine{
    .name = "tfserving",
    .synonyms = "tensorflow tensorflowserving tensorflowmodelserver",
    .detection = {.rules = rules},
    .health = {.path = "", .listing = ModelListing::tfserving, .token = TokenProbe::none},
    .metrics = {.path = "/monitoring/prometheus/metrics", .ports = ports},
    .refusals = {.overload = true},
};

}  // namespace evenkeel
