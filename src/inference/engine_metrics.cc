#include "evenkeel/inference/engine_metrics.h"

#include <algorithm>
#include <cmath>

namespace evenkeel {
namespace {

constexpr double mebibyte = 1024.0 * 1024.0;
constexpr double percent = 0.01;
constexpr double max_requests = 1e9;
/// DCGM writes 2^47 and numbers near 2^31 and 2^63 for what it does not know, in MiB: above this.
constexpr double max_bytes = 0x1p50;

// A vLLM server with several ranks, and a Ray node with several replicas, has a series for each.

constexpr LabelMatcher triton_waiting[] = {{"request_type", "waiting", true}};
constexpr LabelMatcher triton_scheduled[] = {{"request_type", "scheduled", true}};
constexpr LabelMatcher triton_fraction[] = {{"kv_cache_block_type", "fraction", true}};
constexpr LabelMatcher mlserver_inference_only[] = {{"method", "POST"}};
/// With priorities there is a series for each besides the one for all, whose priority is empty.
constexpr LabelMatcher sglang_all_priorities[] = {{"priority", ""}};
/// Every tensor and pipeline rank may tell of the same requests; each rank of data parallelism has
/// its own, told by whichever tensor ranks it has: 0 and 4 of 8, or all.
constexpr std::string_view sglang_group_by = "dp_rank";

std::vector<Series> vllm_series() {
  return {
      {"vllm:num_requests_running", Quantity::running},
      {"vllm:num_requests_waiting", Quantity::waiting},
      {"vllm:kv_cache_usage_perc", Quantity::kv_cache_ratio, Aggregation::max},
      {.name = "vllm:gpu_cache_usage_perc",  // until v0.11
       .quantity = Quantity::kv_cache_ratio,
       .aggregation = Aggregation::max,
       .preference = 1},
      // NIM 1.x is vLLM under names without a prefix.
      {.name = "num_requests_running", .quantity = Quantity::running, .preference = 2},
      {.name = "num_requests_waiting", .quantity = Quantity::waiting, .preference = 2},
      {.name = "gpu_cache_usage_perc",
       .quantity = Quantity::kv_cache_ratio,
       .aggregation = Aggregation::max,
       .preference = 2},
  };
}

/// /metrics is a route of vLLM's own that renders all; /metrics/ is prometheus_client's
/// application, which knows `name[]`. With several API servers it does not, and answers with
/// nothing.
constexpr std::string_view vllm_short_path =
    "/metrics/?name%5B%5D=vllm:num_requests_running&name%5B%5D=vllm:num_requests_waiting"
    "&name%5B%5D=vllm:kv_cache_usage_perc&name%5B%5D=vllm:gpu_cache_usage_perc";

std::vector<Series> sglang_series() {
  return {
      {.name = "sglang:num_running_reqs",
       .quantity = Quantity::running,
       .matchers = sglang_all_priorities,
       .group_by = sglang_group_by},
      {.name = "sglang:num_queue_reqs",
       .quantity = Quantity::waiting,
       .matchers = sglang_all_priorities,
       .group_by = sglang_group_by},
      {.name = "sglang:token_usage",
       .quantity = Quantity::kv_cache_ratio,
       .aggregation = Aggregation::max,
       .matchers = sglang_all_priorities},
  };
}

/// Triton's own queue comes before that of its TensorRT-LLM backend.
std::vector<Series> triton_series() {
  return {
      {"nv_inference_pending_request_count", Quantity::waiting},
      {.name = "nv_trt_llm_request_metrics",
       .quantity = Quantity::waiting,
       .matchers = triton_waiting},
      {.name = "nv_trt_llm_request_metrics",
       .quantity = Quantity::running,
       .matchers = triton_scheduled},
      {.name = "nv_trt_llm_kv_cache_block_metrics",
       .quantity = Quantity::kv_cache_ratio,
       .aggregation = Aggregation::max,
       .matchers = triton_fraction},
      {"nv_gpu_utilization", Quantity::gpu_utilization_ratio, Aggregation::mean},
      {"nv_gpu_memory_used_bytes", Quantity::gpu_memory_used_bytes},
      {"nv_gpu_memory_total_bytes", Quantity::gpu_memory_total_bytes},
  };
}

std::vector<Series> trtllm_series() {
  return {
      {"trtllm_num_requests_running", Quantity::running},
      {"trtllm_num_requests_waiting", Quantity::waiting},
      {"trtllm_kv_cache_utilization", Quantity::kv_cache_ratio, Aggregation::max},
      {"trtllm_gpu_memory_usage_bytes", Quantity::gpu_memory_used_bytes},
  };
}

/// The tokens that a batch may come to take, of those that fit: more than what is in use.
std::vector<Series> tgi_series() {
  return {
      {"tgi_batch_current_size", Quantity::running},
      {"tgi_queue_size", Quantity::waiting},
      {"tgi_batch_current_max_tokens", Quantity::kv_cache_used},
      {"tgi_batch_max_total_tokens", Quantity::kv_cache_capacity},
  };
}

std::vector<Series> llamacpp_series() {
  return {
      {"llamacpp:requests_processing", Quantity::running},
      {"llamacpp:requests_deferred", Quantity::waiting},
      {"llamacpp:kv_cache_usage_ratio", Quantity::kv_cache_ratio, Aggregation::max},  // until 2025
  };
}

/// Requests over HTTP; those over gRPC it only counts when they end. A GET is somebody's check.
std::vector<Series> mlserver_series() {
  return {
      {.name = "rest_server_requests_in_progress",
       .quantity = Quantity::running,
       .matchers = mlserver_inference_only},
  };
}

/// TorchServe tells of its host's GPUs, and of no queue: QueueTime is what one request waited.
std::vector<Series> torchserve_series() {
  return {
      {"GPUUtilization", Quantity::gpu_utilization_ratio, Aggregation::mean, percent},
      {"GPUMemoryUsed", Quantity::gpu_memory_used_bytes, Aggregation::sum, mebibyte},
      {"GPUMemoryUtilization", Quantity::gpu_memory_ratio, Aggregation::mean, percent},
  };
}

/// What the engine in a replica says counts before what its proxies count, which see a request once
/// for each deployment that it passes.
std::vector<Series> ray_series() {
  return {
      {"ray_vllm_num_requests_running", Quantity::running},
      {"ray_vllm_num_requests_waiting", Quantity::waiting},
      {"ray_vllm_kv_cache_usage_perc", Quantity::kv_cache_ratio, Aggregation::max},
      {.name = "ray_vllm_gpu_cache_usage_perc",
       .quantity = Quantity::kv_cache_ratio,
       .aggregation = Aggregation::max,
       .preference = 1},
      {.name = "ray_serve_replica_processing_queries",
       .quantity = Quantity::running,
       .preference = 1},
      {.name = "ray_serve_deployment_queued_queries",
       .quantity = Quantity::waiting,
       .preference = 1},
  };
}

/// Servers that no `engine:` names.
std::vector<Series> other_series() {
  return {
      {"lmdeploy:num_requests_running", Quantity::running},
      {"lmdeploy:num_requests_waiting", Quantity::waiting},
      {"lmdeploy:gpu_cache_usage_perc", Quantity::kv_cache_ratio, Aggregation::max},
      {.name = "gpu_utilization",  // NIMs that serve no language model
       .quantity = Quantity::gpu_utilization_ratio,
       .aggregation = Aggregation::mean,
       .preference = 2},
      {.name = "gpu_memory_used_bytes",
       .quantity = Quantity::gpu_memory_used_bytes,
       .preference = 2},
      {.name = "gpu_memory_total_bytes",
       .quantity = Quantity::gpu_memory_total_bytes,
       .preference = 2},
  };
}

MetricsDialect dialect(std::string_view engine, std::string_view path, std::vector<Series> series) {
  MetricsDialect made{.engine = engine, .path = path};
  std::vector<std::string_view> names;
  for (const Series& each : series) {
    const auto known = std::ranges::find(names, each.name);
    made.name_indices.push_back(static_cast<std::size_t>(known - names.begin()));
    if (known == names.end()) names.push_back(each.name);
  }
  made.series = std::move(series);
  made.names = MetricNames(std::move(names));
  return made;
}

std::vector<MetricsDialect> make_dialects() {
  std::vector<Series> all = other_series();
  for (const auto& series :
       {vllm_series(), sglang_series(), triton_series(), trtllm_series(), tgi_series(),
        llamacpp_series(), mlserver_series(), torchserve_series(), ray_series()}) {
    all.insert(all.end(), series.begin(), series.end());
  }
  std::vector<MetricsDialect> dialects;
  dialects.push_back(dialect("generic", "", std::move(all)));
  dialects.push_back(dialect("vllm", "/metrics", vllm_series()));
  dialects.back().short_path = vllm_short_path;
  dialects.push_back(dialect("sglang", "/metrics", sglang_series()));
  dialects.back().required_option = "--enable-metrics";
  dialects.push_back(dialect("triton", "/metrics", triton_series()));
  dialects.push_back(dialect("trtllm", "/prometheus/metrics", trtllm_series()));
  dialects.back().required_option = "return_perf_metrics: true";
  dialects.push_back(dialect("tgi", "/metrics", tgi_series()));
  dialects.push_back(dialect("llamacpp", "/metrics", llamacpp_series()));
  dialects.back().prevents_sleep = true;
  dialects.back().required_option = "--metrics";
  dialects.push_back(dialect("mlserver", "/metrics", mlserver_series()));
  dialects.push_back(dialect("torchserve", "/metrics", torchserve_series()));
  dialects.back().required_option = "metrics_mode=prometheus";
  dialects.push_back(dialect("ray", "/metrics", ray_series()));
  dialects.back().separate_port = true;  // at its own port it is a path of somebody's application
  // TensorFlow Serving counts what it has done, and says nothing of what it is doing: a path for
  // those who look it up, and nothing to ask.
  dialects.push_back(dialect("tfserving", "/monitoring/prometheus/metrics", {}));
  return dialects;
}

double valid_or_unknown(double value, double max_value) {
  return value >= 0 && value <= max_value ? value : EngineMetrics::unknown;
}

/// Some engines count a little over their capacity.
double ratio(double value) { return std::min(valid_or_unknown(value, 1.5), 1.0); }

}  // namespace

bool EngineMetrics::any() const {
  const double values[] = {running,
                           waiting,
                           kv_cache_ratio,
                           gpu_utilization_ratio,
                           gpu_memory_used_bytes,
                           gpu_memory_total_bytes};
  return std::ranges::any_of(values, [](double value) { return !std::isnan(value); });
}

const MetricsDialect& metrics_dialect_of(std::string_view engine) {
  static const std::vector<MetricsDialect> dialects = make_dialects();
  const auto found = std::ranges::find(dialects, engine, &MetricsDialect::engine);
  return found == dialects.end() ? dialects.front() : *found;
}

std::uint16_t metrics_port_of(std::string_view engine, std::uint16_t port) {
  if (engine == "triton" && (port == 8000 || port == 8001)) return 8002;
  if (engine == "mlserver" && (port == 8080 || port == 8081)) return 8082;
  if (engine == "torchserve" && (port == 8080 || port == 7070)) return 8082;
  if (engine == "tfserving" && port == 8500) return 8501;
  return port;
}

bool is_consumed_by_scrape(std::string_view engine, std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return engine == "trtllm" && path.substr(0, path.find('?')) == "/metrics";
}

void EngineMetricsReader::sample(std::size_t name_index, const Sample& sample) {
  const auto allowed = [&](const LabelMatcher& rule) {
    const auto value = find_label(sample.labels, rule.label, scratch_);
    return value ? *value == rule.value : !rule.required;
  };
  for (std::size_t i = 0; i < dialect_.series.size(); ++i) {
    const Series& series = dialect_.series[i];
    if (dialect_.name_indices[i] != name_index || !std::ranges::all_of(series.matchers, allowed))
      continue;
    Accumulator& accumulator =
        accumulators_[static_cast<std::size_t>(series.quantity)][series.preference];
    const double value = sample.value * series.scale;
    accumulator.aggregation = series.aggregation;
    if (series.group_by.empty()) {
      add(accumulator, value);
      continue;
    }
    const auto group = find_label(sample.labels, series.group_by, scratch_);
    const auto [known, first] =
        accumulator.groups.try_emplace(std::string(group.value_or("")), value);
    if (!first && (std::isnan(value) || value > known->second)) known->second = value;
  }
}

void EngineMetricsReader::add(Accumulator& accumulator, double value) {
  if (accumulator.samples == 0 || std::isnan(value)) {
    accumulator.value = value;
  } else if (accumulator.aggregation == Aggregation::max) {
    accumulator.value = std::max(accumulator.value, value);
  } else {
    accumulator.value += value;
  }
  ++accumulator.samples;
}

double EngineMetricsReader::value_of(Quantity quantity) const {
  for (Accumulator accumulator : accumulators_[static_cast<std::size_t>(quantity)]) {
    for (const auto& [group, value] : accumulator.groups) add(accumulator, value);
    if (accumulator.samples == 0) continue;
    return accumulator.aggregation == Aggregation::mean ? accumulator.value / accumulator.samples
                                                        : accumulator.value;
  }
  return EngineMetrics::unknown;
}

EngineMetrics EngineMetricsReader::reading() const {
  EngineMetrics reading{
      .running = valid_or_unknown(value_of(Quantity::running), max_requests),
      .waiting = valid_or_unknown(value_of(Quantity::waiting), max_requests),
      .kv_cache_ratio = ratio(value_of(Quantity::kv_cache_ratio)),
      .gpu_utilization_ratio = ratio(value_of(Quantity::gpu_utilization_ratio)),
      .gpu_memory_used_bytes =
          valid_or_unknown(value_of(Quantity::gpu_memory_used_bytes), max_bytes),
      .gpu_memory_total_bytes =
          valid_or_unknown(value_of(Quantity::gpu_memory_total_bytes), max_bytes),
  };
  const double capacity = value_of(Quantity::kv_cache_capacity);
  if (std::isnan(reading.kv_cache_ratio) && capacity > 0) {
    reading.kv_cache_ratio = ratio(value_of(Quantity::kv_cache_used) / capacity);
  }
  const double used_ratio = value_of(Quantity::gpu_memory_ratio);
  if (std::isnan(reading.gpu_memory_total_bytes) && used_ratio > 0) {
    reading.gpu_memory_total_bytes =
        valid_or_unknown(reading.gpu_memory_used_bytes / used_ratio, max_bytes);
  }
  return reading;
}

}  // namespace evenkeel
