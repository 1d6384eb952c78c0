// NVIDIA's Triton Inference Server.
#include "inference/detection_evidence.h"
#include "inference/engines/engines.h"

namespace evenkeel {
namespace {

bool has_name(const DetectionEvidence& responses) {
  return DetectionEvidence::text_at(responses.object_at("/v2"), "name") == "triton";
}

constexpr EvidenceRule rules[] = {{"/v2 has its name", has_name}};

constexpr LabelMatcher waiting[] = {{"request_type", "waiting", true}};
constexpr LabelMatcher scheduled[] = {{"request_type", "scheduled", true}};
constexpr LabelMatcher fraction[] = {{"kv_cache_block_type", "fraction", true}};
constexpr LabelMatcher all_blocks[] = {{"kv_cache_block_type", "max", true}};
constexpr LabelMatcher block_size[] = {{"kv_cache_block_type", "tokens_per", true}};

/// Requests wait in Triton's own queue first, then in that of its TensorRT-LLM backend: both count.
constexpr Series series[] = {
    {.name = "nv_inference_pending_request_count", .quantity = Quantity::waiting},
    {.name = "nv_trt_llm_request_metrics", .quantity = Quantity::waiting, .matchers = waiting},
    {.name = "nv_trt_llm_request_metrics", .quantity = Quantity::running, .matchers = scheduled},
    {.name = "nv_trt_llm_kv_cache_block_metrics",
     .quantity = Quantity::kv_cache_ratio,
     .aggregation = Aggregation::max,
     .matchers = fraction},
    {.name = "nv_gpu_utilization",
     .quantity = Quantity::gpu_utilization_ratio,
     .aggregation = Aggregation::mean},
    {.name = "nv_gpu_memory_used_bytes", .quantity = Quantity::gpu_memory_used_bytes},
    {.name = "nv_gpu_memory_total_bytes", .quantity = Quantity::gpu_memory_total_bytes},
    {.name = "nv_energy_consumption", .quantity = Quantity::work_done},  // since its start
    {.name = "nv_trt_llm_kv_cache_block_metrics",
     .quantity = Quantity::kv_blocks,
     .matchers = all_blocks},
    {.name = "nv_trt_llm_kv_cache_block_metrics",
     .quantity = Quantity::kv_tokens_per_block,
     .aggregation = Aggregation::mean,
     .matchers = block_size},
};

constexpr MetricsPort ports[] = {{8000, 8002}, {8001, 8002}};

}  // namespace

/// 400 at /v2/health/ready means "not ready", which it is as long as any of its models loads.
const Engine triton_engine{
    .name = "triton",
    .synonyms = "tritonserver tritoninferenceserver nvidiatriton",
    .detection = {.rules = rules},
    .health = {.path = "/v2/health/ready",
               .listing = ModelListing::kserve,
               .token = TokenProbe::kserve,
               .not_ready_status = 400,
               .path_covers_all_models = true,
               .closes_listener_first = true,
               .serves_kserve_grpc = true},
    .metrics = {.path = "/metrics", .series = series, .ports = ports},
    // TritonJson::Value::Parse reports an internal error.
    .refusals = {.overload = true, .json_error = "failed to parse the request JSON buffer"},
};

}  // namespace evenkeel
