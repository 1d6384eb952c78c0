// Any server of which nothing is known.
#include "inference/engines/engines.h"

namespace evenkeel {
namespace {

/// Servers that are no engine of their own here: LMDeploy, and NIMs that serve no language model.
constexpr Series series[] = {
    {.name = "lmdeploy:num_requests_running", .quantity = Quantity::running},
    {.name = "lmdeploy:num_requests_waiting", .quantity = Quantity::waiting},
    {.name = "lmdeploy:gpu_cache_usage_perc",
     .quantity = Quantity::kv_cache_ratio,
     .aggregation = Aggregation::max},
    {.name = "gpu_utilization",
     .quantity = Quantity::gpu_utilization_ratio,
     .aggregation = Aggregation::mean,
     .preference = 2},
    {.name = "gpu_memory_used_bytes", .quantity = Quantity::gpu_memory_used_bytes, .preference = 2},
    {.name = "gpu_memory_total_bytes",
     .quantity = Quantity::gpu_memory_total_bytes,
     .preference = 2},
};

}  // namespace

const Engine generic_engine{
    .name = "generic",
    .synonyms = "openai none any custom other http",
    .health = {.path = "/health", .check_by_default = false},
    .metrics = {.series = series, .any_series = true},
};

}  // namespace evenkeel
