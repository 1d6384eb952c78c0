// vLLM's API server.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "sim/engine_api.h"
#include "sim/engine_errors.h"
#include "sim/engine_page.h"
#include "sim/http_response.h"
#include "sim/openai_engine.h"
#include "sim/simulated_model.h"

namespace evenkeel {
namespace {

void write_gauges(EnginePage& page, const EngineSnapshot& r) {
  page.gauge("vllm:num_requests_running", "Number of requests in model execution batches.",
             r.gauges.running);
  page.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.",
             r.gauges.waiting);
  page.gauges("vllm:num_requests_waiting_by_reason",
              "Number of waiting requests, by the reason they wait.");
  page.sample(r.gauges.waiting - r.gauges.deferred, {{"reason", "capacity"}});
  page.sample(r.gauges.deferred, {{"reason", "deferred"}});
  page.gauges("vllm:engine_sleep_state", "Engine sleep state; awake = 0 means asleep.");
  page.sample(r.sleeping ? 0 : 1, {{"sleep_state", "awake"}});
  page.sample(r.sleeping ? 1 : 0, {{"sleep_state", "weights_offloaded"}});
  page.sample(0, {{"sleep_state", "discard_all"}});
  page.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.",
             r.gauges.kv_cache_ratio);
}

void write_counters(EnginePage& page, const EngineSnapshot& r) {
  const ServerStatistics& s = r.statistics;
  const auto counter = [&](std::string_view name, std::string_view help, std::uint64_t value) {
    page.counter(fmt::format("{}_total", name), help, value);
    const std::string created = fmt::format("{}_created", name);
    page.gauge(created, help, r.started_unix);
  };
  counter("vllm:prefix_cache_queries",
          "Prefix cache queries, in terms of number of queried tokens.", s.prompt_tokens);
  counter("vllm:prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.",
          s.cached_tokens);
  counter("vllm:num_preemptions", "Cumulative number of preemption from the engine.",
          s.preemptions);
  counter("vllm:prompt_tokens", "Number of prefill tokens processed.", s.prompt_tokens);
  counter("vllm:prompt_tokens_cached", "Number of prompt tokens found in a cache.",
          s.cached_tokens);
  counter("vllm:generation_tokens", "Number of generation tokens processed.", s.generated_tokens);
  page.counters("vllm:prompt_tokens_by_source_total", "Number of prompt tokens by source.");
  page.sample(s.prompt_tokens - s.cached_tokens, {{"source", "local_compute"}});
  page.sample(s.cached_tokens, {{"source", "local_cache_hit"}});
  page.sample(0, {{"source", "external_kv_transfer"}});
  page.counters("vllm:request_success_total", "Count of successfully processed requests.");
  page.sample(s.finished_stop, {{"finished_reason", "stop"}});
  page.sample(s.finished_length, {{"finished_reason", "length"}});
  page.sample(0, {{"finished_reason", "abort"}});  // vLLM never counts these
  page.sample(0, {{"finished_reason", "error"}});
}

std::string adapter_list(const std::vector<std::uint32_t>& numbers, const AdaptersSpec& adapters) {
  std::string list;
  for (const std::uint32_t number : numbers) {
    if (!list.empty()) list += ',';
    list += adapters.names[number - 1];
  }
  return list;
}

/// A sample for each state that it was in, as prometheus_client keeps them.
void write_adapters(EnginePage& page, const EngineSnapshot& r) {
  if (r.adapters.names.empty()) return;
  page.gauges("vllm:lora_requests_info", "Running stats on lora requests.");
  const std::string slots = std::to_string(r.adapters.slots);
  for (const auto& [use, at] : r.adapter_uses) {
    const std::string running = adapter_list(use.running, r.adapters);
    const std::string waiting = adapter_list(use.waiting, r.adapters);
    page.sample(at, {{"max_lora", slots},
                     {"running_lora_adapters", running},
                     {"waiting_lora_adapters", waiting}});
  }
}

void write_histograms(EnginePage& page, const ServerStatistics& s) {
  page.histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.",
                 s.request_prompt_tokens);
  page.histogram("vllm:request_generation_tokens", "Number of generation tokens processed.",
                 s.request_generation_tokens);
  page.histogram("vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.",
                 s.request_max_tokens);
  page.histogram("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.",
                 s.iteration_tokens);
  page.histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.",
                 s.time_to_first_token);
  page.histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.",
                 s.inter_token_latency);
  page.histogram("vllm:request_time_per_output_token_seconds",
                 "Histogram of time per output token per request.", s.time_per_output_token);
  page.histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.",
                 s.e2e_latency);
  page.histogram("vllm:request_queue_time_seconds",
                 "Histogram of time spent in WAITING phase for request.", s.queue_time);
  page.histogram("vllm:request_inference_time_seconds",
                 "Histogram of time spent in RUNNING phase for request.", s.inference_time);
  page.histogram("vllm:request_prefill_time_seconds",
                 "Histogram of time spent in PREFILL phase for request.", s.prefill_time);
  page.histogram("vllm:request_decode_time_seconds",
                 "Histogram of time spent in DECODE phase for request.", s.decode_time);
}

class Vllm final : public OpenAiEngine {
 public:
  using OpenAiEngine::OpenAiEngine;

  Task<Result<Response>> handle(Request& request, int client_fd) override {
    const auto format = request.fields.value("endpoint-load-metrics-format");
    if (format) return handle_with_report(request, client_fd, equals_ignore_case(*format, "json"));
    return OpenAiEngine::handle(request, client_fd);
  }
  std::string metrics_page(const EngineSnapshot& snapshot) const override;

 private:
  std::optional<Response> page(std::string_view method, std::string_view path) override;
  Task<Result<Response>> handle_with_report(Request& request, int client_fd, bool json);
  Response sleep(bool sleeps);
};

std::optional<Response> Vllm::page(std::string_view method, std::string_view path) {
  if (path == "/health" || path == "/ping") {
    const bool allowed = method == "GET" || (method == "POST" && path == "/ping");
    if (!allowed) return respond_json(405, R"({"detail":"Method Not Allowed"})");
    return respond(model_.loading() ? 503 : 200, "text/plain", "");
  }
  if (method == "POST" && (path == "/sleep" || path == "/wake_up")) return sleep(path == "/sleep");
  if (method != "GET" && method != "HEAD") return std::nullopt;
  if (path == "/version") return respond_json(200, R"({"version":"0.32.0+sim"})");
  if (path == "/load") {
    const Gauges gauges = model_.runner().gauges();
    return respond_json(200,
                        fmt::format(R"({{"server_load":{}}})", gauges.running + gauges.waiting));
  }
  if (path == "/is_sleeping") {
    return respond_json(200, fmt::format(R"({{"is_sleeping":{}}})", model_.sleeping()));
  }
  return std::nullopt;
}

/// ORCA: only whole answers have it.
Task<Result<Response>> Vllm::handle_with_report(Request& request, int client_fd, bool json) {
  const bool completes = path_of(request.path).ends_with("/completions");
  auto response = co_await OpenAiEngine::handle(request, client_fd);
  const bool whole = response && response->body != nullptr && response->body->length();
  if (!completes || !whole || response->status != 200) co_return response;
  const Gauges gauges = model_.runner().gauges();
  constexpr const char* text =
      "TEXT named_metrics.kv_cache_usage_perc={}, named_metrics.num_requests_waiting={}";
  constexpr const char* object =
      R"(JSON {{"named_metrics": {{"kv_cache_usage_perc": {}, "num_requests_waiting": {}}}}})";
  const std::string report =
      fmt::format(fmt::runtime(json ? object : text), gauges.kv_cache_ratio, gauges.waiting);
  response->fields.add_copy("endpoint-load-metrics", report);
  co_return response;
}

/// Puts the engine to sleep or wakes it, as with VLLM_SERVER_DEV_MODE=1.
Response Vllm::sleep(bool sleeps) {
  SimState state = model_.state();
  if (state.fault == SimFault::none || state.fault == SimFault::sleep) {
    state.fault = sleeps ? SimFault::sleep : SimFault::none;
    model_.set_state(state);
  }
  return respond(200, "text/plain", "");
}

std::string Vllm::metrics_page(const EngineSnapshot& r) const {
  EnginePage page({{"engine", "0"}, {"model_name", r.model}});
  write_gauges(page, r);
  write_counters(page, r);
  write_histograms(page, r.statistics);
  const std::string block_size = std::to_string(r.preset.engine.block_tokens);
  const std::string blocks = std::to_string(r.preset.engine.kv_blocks);
  const std::string kv_tokens =
      std::to_string(r.preset.engine.kv_blocks * r.preset.engine.block_tokens);
  EnginePage info;
  write_adapters(info, r);
  info.gauges("vllm:cache_config_info", "Information of the LLMEngine CacheConfig");
  info.sample(1, {{"block_size", block_size},
                  {"cache_dtype", "auto"},
                  {"enable_prefix_caching", "True"},
                  {"engine", "0"},
                  {"gpu_memory_utilization", "0.92"},
                  {"kv_cache_size_tokens", kv_tokens},
                  {"num_cpu_blocks", "None"},
                  {"num_gpu_blocks", blocks},
                  {"prefix_caching_hash_algo", "sha256"}});
  info.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.",
             r.started_unix);
  return page.take() + info.take();
}

}  // namespace

const SimulatedEngine simulated_vllm = {
    .name = "vllm",
    .make = make_engine<Vllm>,
    .model_owner = "vllm",
    .idle_timeout = std::chrono::seconds(5),  // uvicorn's
    .refuses_connections_while_loading = true,
    .fingerprint = "vllm-0.32.0-tp1-5d1a7f2c",
    .metrics_type = "text/plain; version=1.0.0; charset=utf-8",
    .mounts_metrics_app = true,
};

}  // namespace evenkeel
