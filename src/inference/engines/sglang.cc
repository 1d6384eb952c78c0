// SGLang.
#include "inference/detection_evidence.h"
#include "inference/engines/engines.h"

namespace evenkeel {
namespace {

bool has_owner(const DetectionEvidence& responses) { return responses.has_owner("sglang"); }

bool has_model_info(const DetectionEvidence& responses) {
  const auto is_model_info = [&](std::string_view path) {
    const DetectionEvidence::Keys& info = responses.object_at(path);
    return info.contains("model_path") && info.contains("is_generation");
  };
  return is_model_info("/model_info") || is_model_info("/get_model_info");
}

constexpr EvidenceRule rules[] = {
    {"/v1/models says owned_by sglang", has_owner},
    {"/model_info describes its model", has_model_info},
};

/// The total has an empty priority; with priorities there is a series for each of them besides.
constexpr LabelMatcher total[] = {{"priority", ""}};

/// All tensor and pipeline ranks may report the same requests; each rank of data parallelism has
/// its own, reported by any subset of its tensor ranks.
constexpr std::string_view group_by = "dp_rank";

constexpr Series series[] = {
    {.name = "sglang:num_running_reqs",
     .quantity = Quantity::running,
     .matchers = total,
     .group_by = group_by},
    {.name = "sglang:num_queue_reqs",
     .quantity = Quantity::waiting,
     .matchers = total,
     .group_by = group_by},
    {.name = "sglang:token_usage",
     .quantity = Quantity::kv_cache_ratio,
     .aggregation = Aggregation::max,
     .matchers = total},
    // SGLang runs as several processes, whose page has no start time.
    {.name = "sglang:prompt_tokens_total", .quantity = Quantity::work_done},
    {.name = "sglang:generation_tokens_total", .quantity = Quantity::work_done},
    {.name = "sglang:max_total_num_tokens", .quantity = Quantity::kv_tokens, .group_by = group_by},
    {.name = "sglang:prompt_tokens_total", .quantity = Quantity::prefix_queried},
    {.name = "sglang:cached_tokens_total", .quantity = Quantity::prefix_hit},
    {.name = "sglang:lora_pool_slots_total",
     .quantity = Quantity::adapter_slots,
     .aggregation = Aggregation::max},
};

}  // namespace

/// SGLang's /health generates a token and looks for it once a second, as does /health_generate.
const Engine sglang_engine{
    .name = "sglang",
    .detection = {.rules = rules},
    .health = {.path = "/health", .lists_adapters = true, .timeout = std::chrono::seconds(5)},
    .metrics = {.path = "/metrics", .series = series, .required_option = "--enable-metrics"},
    .refusals = {.overload = true, .early_errors = true},
    .writes_null_usage = true,
    .gives_stream_usage = true,
};

}  // namespace evenkeel
