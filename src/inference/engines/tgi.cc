// Hugging Face's Text Generation Inference.
#include "inference/detection_evidence.h"
#include "inference/engines/engines.h"

namespace evenkeel {
namespace {

/// True if /info is TGI's: that of TEI, which embeds texts, has no max_total_tokens.
bool has_info(const DetectionEvidence& responses) {
  const DetectionEvidence::Keys& info = responses.object_at("/info");
  return info.contains("model_id") &&
         (info.contains("max_total_tokens") ||
          DetectionEvidence::text_at(info, "router") == "text-generation-router");
}

constexpr EvidenceRule rules[] = {{"/info describes its router", has_info}};

/// The used part is what the batch may grow to, which is more than it takes now.
constexpr Series series[] = {
    {.name = "tgi_batch_current_size", .quantity = Quantity::running},
    {.name = "tgi_queue_size", .quantity = Quantity::waiting},
    {.name = "tgi_batch_current_max_tokens", .quantity = Quantity::kv_cache_used},
    {.name = "tgi_batch_max_total_tokens", .quantity = Quantity::kv_cache_capacity},
    {.name = "tgi_batch_max_total_tokens", .quantity = Quantity::kv_tokens},
    {.name = "tgi_request_count", .quantity = Quantity::work_done},
};

}  // namespace

/// TGI's /v2/health says {"live":true} whatever happens.
const Engine tgi_engine{
    .name = "tgi",
    .synonyms = "textgenerationinference huggingface hf",
    .detection = {.rules = rules},
    .health = {.path = "/health"},
    .metrics = {.path = "/metrics", .series = series},
    .refusals = {.overload = true},
    .writes_null_usage = true,
};

}  // namespace evenkeel
