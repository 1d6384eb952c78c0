// vLLM.
#include "inference/detection_evidence.h"
#include "inference/engines/engines.h"

namespace evenkeel {
namespace {

bool has_owner(const DetectionEvidence& responses) { return responses.has_owner("vllm"); }

/// True if both paths are vLLM's. They stay open if an API key guards the others.
bool has_load(const DetectionEvidence& responses) {
  return responses.object_at("/load").contains("server_load") &&
         responses.object_at("/version").contains("version");
}

constexpr EvidenceRule rules[] = {
    {"/v1/models says owned_by vllm", has_owner},
    {"it has /version and /load", has_load},
};

constexpr std::string_view cache_size[] = {"kv_cache_size_tokens"};
constexpr std::string_view cache_blocks[] = {"num_gpu_blocks", "block_size"};
constexpr AdapterLabels adapter_labels{
    .running = "running_lora_adapters", .waiting = "waiting_lora_adapters", .slots = "max_lora"};

constexpr LabelMatcher awake[] = {{"sleep_state", "awake", true}};

/// A server with several ranks has a series for each.
constexpr Series series[] = {
    {.name = "vllm:num_requests_running", .quantity = Quantity::running},
    {.name = "vllm:num_requests_waiting", .quantity = Quantity::waiting},
    {.name = "vllm:kv_cache_usage_perc",
     .quantity = Quantity::kv_cache_ratio,
     .aggregation = Aggregation::max},
    {.name = "vllm:gpu_cache_usage_perc",  // until v0.11
     .quantity = Quantity::kv_cache_ratio,
     .aggregation = Aggregation::max,
     .preference = 1},
    // NIM 1.x is vLLM with names without a prefix.
    {.name = "num_requests_running", .quantity = Quantity::running, .preference = 2},
    {.name = "num_requests_waiting", .quantity = Quantity::waiting, .preference = 2},
    {.name = "gpu_cache_usage_perc",
     .quantity = Quantity::kv_cache_ratio,
     .aggregation = Aggregation::max,
     .preference = 2},
    // Absent with several API servers.
    {.name = process_start_time, .quantity = Quantity::start_time, .aggregation = Aggregation::max},
    {.name = "vllm:prompt_tokens_total", .quantity = Quantity::work_done},
    {.name = "vllm:generation_tokens_total", .quantity = Quantity::work_done},
    {.name = "vllm:cache_config_info", .quantity = Quantity::kv_tokens, .factors = cache_size},
    {.name = "vllm:cache_config_info",  // until 2025
     .quantity = Quantity::kv_tokens,
     .preference = 1,
     .factors = cache_blocks},
    {.name = "vllm:prefix_cache_queries_total", .quantity = Quantity::prefix_queried},
    {.name = "vllm:prefix_cache_hits_total", .quantity = Quantity::prefix_hit},
    {.name = "vllm:gpu_prefix_cache_queries_total",  // until v0.11
     .quantity = Quantity::prefix_queried,
     .preference = 1},
    {.name = "vllm:gpu_prefix_cache_hits_total", .quantity = Quantity::prefix_hit, .preference = 1},
    {.name = "vllm:engine_sleep_state",
     .quantity = Quantity::awake,
     .aggregation = Aggregation::max,
     .matchers = awake},
    {.name = "vllm:lora_requests_info",
     .quantity = Quantity::adapters,
     .adapters = &adapter_labels},
};

/// vLLM's own route /metrics renders everything; /metrics/ is prometheus_client's application,
/// which supports `name[]`. With several API servers it does not, and answers with an empty page.
constexpr std::string_view short_path =
    "/metrics/?name%5B%5D=vllm:num_requests_running&name%5B%5D=vllm:num_requests_waiting"
    "&name%5B%5D=vllm:kv_cache_usage_perc&name%5B%5D=vllm:gpu_cache_usage_perc"
    "&name%5B%5D=process_start_time_seconds&name%5B%5D=vllm:cache_config_info"
    "&name%5B%5D=vllm:prefix_cache_queries_total&name%5B%5D=vllm:prefix_cache_hits_total"
    "&name%5B%5D=vllm:lora_requests_info&name%5B%5D=vllm:engine_sleep_state";

}  // namespace

/// vLLM listens once its engine is up. While it sleeps it is healthy, but holds all requests.
const Engine vllm_engine{
    .name = "vllm",
    .detection = {.rules = rules},
    .health = {.path = "/health",
               .sleep_path = "/is_sleeping",
               .closes_listener_first = true,
               .lists_adapters = true},
    .metrics = {.path = "/metrics", .short_path = short_path, .series = series},
    .refusals = {.overload = true, .early_errors = true},
    .gives_stream_usage = true,
};

}  // namespace evenkeel
