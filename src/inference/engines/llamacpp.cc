// llama.cpp's llama-server.
#include "inference/detection_evidence.h"
#include "inference/engines/engines.h"

namespace evenkeel {
namespace {

bool has_owner(const DetectionEvidence& responses) { return responses.has_owner("llamacpp"); }

bool has_server_field(const DetectionEvidence& responses) {
  return responses.any([](const DetectionResponse& response, const DetectionEvidence::Keys&) {
    return response.server.starts_with("llama.cpp");
  });
}

/// True if the server answers as it answers every request until its model is loaded.
bool is_loading(const DetectionEvidence& responses) {
  return responses.any([](const DetectionResponse& response, const DetectionEvidence::Keys&) {
    return response.status == 503 && response.body.find("\"Loading model\"") != std::string::npos &&
           response.body.find("\"unavailable_error\"") != std::string::npos;
  });
}

bool has_slots(const DetectionEvidence& responses) {
  return responses.object_at("/props").contains("total_slots");
}

constexpr EvidenceRule rules[] = {
    {"/v1/models says owned_by llamacpp", has_owner},
    {"the 'server' field names it", has_server_field},
    {"it says that it is loading its model", is_loading},
    {"/props has total_slots", has_slots},
};

constexpr Series series[] = {
    {.name = "llamacpp:requests_processing", .quantity = Quantity::running},
    {.name = "llamacpp:requests_deferred", .quantity = Quantity::waiting},
    {.name = "llamacpp:kv_cache_usage_ratio",  // until 2025
     .quantity = Quantity::kv_cache_ratio,
     .aggregation = Aggregation::max},
    // A model that slept and woke counts from 0 again, with an empty cache.
    {.name = "llamacpp:n_decode_total", .quantity = Quantity::work_done},
    {.name = "llamacpp:prompt_tokens_total", .quantity = Quantity::prefix_queried},  // computed
    {.name = "llamacpp:prompt_tokens_cached_total", .quantity = Quantity::prefix_queried},
    {.name = "llamacpp:prompt_tokens_cached_total", .quantity = Quantity::prefix_hit},
};

}  // namespace

/// llama.cpp's /slots and /metrics wake a sleeping model, so health checks use neither. /v1/models
/// lists the model while it is still loading.
const Engine llamacpp_engine{
    .name = "llamacpp",
    .synonyms = "llama llamaserver gguf",
    .detection = {.rules = rules, .reports_loading = is_loading},
    .health = {.path = "/health", .closes_listener_first = true},
    .metrics = {.path = "/metrics",
                .series = series,
                .required_option = "--metrics",
                .prevents_sleep = true},
    // How messages of nlohmann::json's exceptions begin: malformed JSON, a value of the wrong type,
    // a missing key.
    .refusals = {.overload = true, .json_error = "[json.exception."},
};

}  // namespace evenkeel
