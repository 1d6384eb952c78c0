// TensorRT-LLM's trtllm-serve.
#include "inference/detection_evidence.h"
#include "inference/engines/engines.h"

namespace evenkeel {
namespace {

bool has_owner(const DetectionEvidence& responses) { return responses.has_owner("tensorrt_llm"); }

constexpr EvidenceRule rules[] = {{"/v1/models says owned_by tensorrt_llm", has_owner}};

constexpr Series series[] = {
    {.name = "trtllm_num_requests_running", .quantity = Quantity::running},
    {.name = "trtllm_num_requests_waiting", .quantity = Quantity::waiting},
    {.name = "trtllm_kv_cache_utilization",
     .quantity = Quantity::kv_cache_ratio,
     .aggregation = Aggregation::max},
    {.name = "trtllm_gpu_memory_usage_bytes", .quantity = Quantity::gpu_memory_used_bytes},
    {.name = process_start_time, .quantity = Quantity::start_time, .aggregation = Aggregation::max},
    {.name = "trtllm_prompt_tokens_total", .quantity = Quantity::work_done},
    {.name = "trtllm_kv_cache_max_blocks", .quantity = Quantity::kv_blocks},
    {.name = "trtllm_kv_cache_tokens_per_block",
     .quantity = Quantity::kv_tokens_per_block,
     .aggregation = Aggregation::mean},
    {.name = "trtllm_max_num_tokens_runtime",
     .quantity = Quantity::step_tokens,
     .aggregation = Aggregation::max},
    {.name = "trtllm_prompt_tokens_total", .quantity = Quantity::prefix_queried},
    {.name = "trtllm_prompt_cached_tokens_total", .quantity = Quantity::prefix_hit},
};

}  // namespace

/// TensorRT-LLM's /metrics is JSON that each reader takes away from all others.
const Engine trtllm_engine{
    .name = "trtllm",
    .synonyms = "tensorrt tensorrtllm trtllmserve",
    .detection = {.rules = rules},
    .health = {.path = "/health"},
    .metrics = {.path = "/prometheus/metrics",
                .series = series,
                .required_option = "return_perf_metrics: true",
                .consumed_path = "/metrics"},
    .refusals = {.overload = true, .early_errors = true},
};

}  // namespace evenkeel
