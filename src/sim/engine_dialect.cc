#include "sim/engine_dialect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "evenkeel/base/rng.h"
#include "evenkeel/http/status.h"
#include "evenkeel/inference/json.h"
#include "sim/exposition_writer.h"

namespace evenkeel {
namespace {

constexpr std::array<std::string_view, 6> kind_names = {"vllm", "sglang",   "triton",
                                                        "tgi",  "llamacpp", "generic"};

double number(std::uint64_t count) { return static_cast<double>(count); }

std::string_view vllm_error_type(int status) {
  switch (status) {
    case 400: return "BadRequestError";
    case 404: return "NotFoundError";
    case 422: return "UnprocessableEntityError";
    case 501: return "NotImplementedError";
    default: return status >= 500 ? "InternalServerError" : phrase_of(status);
  }
}

std::string_view llamacpp_error_type(int status) {
  switch (status) {
    case 400: return "invalid_request_error";
    case 401: return "authentication_error";
    case 404: return "not_found_error";
    case 501: return "not_supported_error";
    case 503: return "unavailable_error";
    default: return "server_error";
  }
}

std::string_view tgi_error_type(int status) {
  switch (status) {
    case 429: return "overloaded";
    case 424: return "generation";
    case 503: return "healthcheck";
    default: return "validation";
  }
}

void write_vllm(ExpositionWriter& out, const EngineSnapshot& r) {
  const ServerStatistics& s = r.statistics;
  out.gauge("vllm:num_requests_running", "Number of requests in model execution batches.",
            number(r.gauges.running));
  out.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.",
            number(r.gauges.waiting));
  out.write_family("vllm:num_requests_waiting_by_reason", "gauge",
                   "Number of waiting requests, by the reason they wait.");
  out.sample("vllm:num_requests_waiting_by_reason", number(r.gauges.waiting),
             "reason=\"capacity\"");
  out.sample("vllm:num_requests_waiting_by_reason", 0, "reason=\"deferred\"");
  out.write_family("vllm:engine_sleep_state", "gauge",
                   "Engine sleep state; awake = 0 means asleep.");
  out.sample("vllm:engine_sleep_state", 1, "sleep_state=\"awake\"");
  out.sample("vllm:engine_sleep_state", 0, "sleep_state=\"weights_offloaded\"");
  out.sample("vllm:engine_sleep_state", 0, "sleep_state=\"discard_all\"");
  out.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.",
            r.gauges.kv_cache_ratio);

  const auto counter = [&](std::string_view name, std::string_view help, std::uint64_t value) {
    out.counter(fmt::format("{}_total", name), help, number(value));
    const std::string created = fmt::format("{}_created", name);
    out.gauge(created, help, r.started_unix);
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
  out.write_family("vllm:prompt_tokens_by_source_total", "counter",
                   "Number of prompt tokens by source.");
  out.sample("vllm:prompt_tokens_by_source_total", number(s.prompt_tokens - s.cached_tokens),
             "source=\"local_compute\"");
  out.sample("vllm:prompt_tokens_by_source_total", number(s.cached_tokens),
             "source=\"local_cache_hit\"");
  out.sample("vllm:prompt_tokens_by_source_total", 0, "source=\"external_kv_transfer\"");
  out.write_family("vllm:request_success_total", "counter",
                   "Count of successfully processed requests.");
  out.sample("vllm:request_success_total", number(s.finished_stop), "finished_reason=\"stop\"");
  out.sample("vllm:request_success_total", number(s.finished_length), "finished_reason=\"length\"");
  out.sample("vllm:request_success_total", 0,
             "finished_reason=\"abort\"");  // as seen: never counts
  out.sample("vllm:request_success_total", 0, "finished_reason=\"error\"");

  out.histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.",
                s.request_prompt_tokens);
  out.histogram("vllm:request_generation_tokens", "Number of generation tokens processed.",
                s.request_generation_tokens);
  out.histogram("vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.",
                s.request_max_tokens);
  out.histogram("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.",
                s.iteration_tokens);
  out.histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.",
                s.time_to_first_token);
  out.histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.",
                s.inter_token_latency);
  out.histogram("vllm:request_time_per_output_token_seconds",
                "Histogram of time per output token per request.", s.time_per_output_token);
  out.histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.",
                s.e2e_latency);
  out.histogram("vllm:request_queue_time_seconds",
                "Histogram of time spent in WAITING phase for request.", s.queue_time);
  out.histogram("vllm:request_inference_time_seconds",
                "Histogram of time spent in RUNNING phase for request.", s.inference_time);
  out.histogram("vllm:request_prefill_time_seconds",
                "Histogram of time spent in PREFILL phase for request.", s.prefill_time);
  out.histogram("vllm:request_decode_time_seconds",
                "Histogram of time spent in DECODE phase for request.", s.decode_time);
}

std::string vllm_exposition(const EngineSnapshot& r) {
  ExpositionWriter out("engine=\"0\"," + label("model_name", r.model));
  write_vllm(out, r);
  const EngineSpec& spec = r.preset.engine;
  ExpositionWriter info;
  info.write_family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig");
  info.sample("vllm:cache_config_info", 1,
              fmt::format("block_size=\"{}\",cache_dtype=\"auto\",enable_prefix_caching=\"True\","
                          "engine=\"0\",gpu_memory_utilization=\"0.92\",num_cpu_blocks=\"None\","
                          "num_gpu_blocks=\"{}\",prefix_caching_hash_algo=\"sha256\"",
                          spec.block_tokens, spec.kv_blocks));
  return out.take() + info.take();
}

std::string sglang_exposition(const EngineSnapshot& r) {
  const ServerStatistics& s = r.statistics;
  const std::string tokenizer = "engine_type=\"unified\"," + label("model_name", r.model);
  ExpositionWriter out(tokenizer + ",moe_ep_rank=\"0\",pp_rank=\"0\",tp_rank=\"0\"");
  const double capacity = number(r.preset.engine.kv_blocks - 1) * r.preset.engine.block_tokens;
  const double used = r.gauges.kv_cache_ratio * capacity;
  const double hit_rate =
      s.prompt_tokens == 0 ? 0 : number(s.cached_tokens) / number(s.prompt_tokens);
  out.gauge("sglang:num_running_reqs", "The number of running requests.", number(r.gauges.running));
  out.gauge("sglang:num_queue_reqs", "The number of requests in the waiting queue.",
            number(r.gauges.waiting));
  out.gauge("sglang:num_used_tokens", "The number of used tokens.", used);
  out.gauge("sglang:kv_available_tokens", "The number of tokens that are free.", capacity - used);
  out.gauge("sglang:max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.",
            capacity);
  out.gauge("sglang:token_usage", "The token usage.", r.gauges.kv_cache_ratio);
  out.gauge("sglang:cache_hit_rate", "The prefix cache hit rate.", hit_rate);
  out.gauge("sglang:gen_throughput", "The generation throughput (token/s).",
            r.gauges.generated_per_second);
  out.gauge("sglang:page_size", "The page size of the KV cache.", r.preset.engine.block_tokens);
  out.gauge("sglang:context_len", "The context length.", r.preset.engine.max_model_tokens);
  out.counter("sglang:num_retracted_requests_total", "Number of retracted requests.",
              number(s.preemptions));

  ExpositionWriter front(tokenizer);
  front.counter("sglang:prompt_tokens_total", "Number of prefill tokens processed.",
                number(s.prompt_tokens));
  front.counter("sglang:generation_tokens_total", "Number of generation tokens processed.",
                number(s.generated_tokens));
  front.counter("sglang:cached_tokens_total", "Number of cached prompt tokens.",
                number(s.cached_tokens));
  front.counter("sglang:num_requests_total", "Number of requests processed.", number(s.requests));
  front.counter("sglang:num_aborted_requests_total", "Number of requests aborted.",
                number(s.aborted));
  front.histogram("sglang:time_to_first_token_seconds",
                  "Histogram of time to first token in seconds.", s.time_to_first_token);
  front.histogram("sglang:inter_token_latency_seconds",
                  "Histogram of inter-token latency in seconds.", s.inter_token_latency);
  front.histogram("sglang:e2e_request_latency_seconds",
                  "Histogram of End-to-end request latency in seconds", s.e2e_latency);
  front.histogram("sglang:queue_time_seconds", "Histogram of queueing time in seconds.",
                  s.queue_time);
  return out.take() + front.take();
}

std::string gpu_uuid(std::uint64_t seed, std::uint32_t index) {
  const std::uint64_t high = mix(seed * 64 + index + 1);
  const std::uint64_t low = mix(high + 1);
  return fmt::format("GPU-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xffff,
                     high & 0xffff, low >> 48, low & 0xffffffffffff);
}

double used_bytes(const EngineSnapshot& r) {
  return r.gpu.memory_ratio * number(r.preset.gpu_memory_bytes);
}

double watts(const EngineSnapshot& r) {
  return r.preset.idle_watts +
         (r.preset.full_watts - r.preset.idle_watts) * r.gpu.utilization_ratio;
}

double joules(const EngineSnapshot& r) {
  return r.preset.idle_watts * r.gpu.uptime_seconds +
         (r.preset.full_watts - r.preset.idle_watts) * r.gpu.busy_seconds;
}

std::string triton_exposition(const EngineSnapshot& r) {
  const ServerStatistics& s = r.statistics;
  const double ended = number(s.finished_stop + s.finished_length + s.batched_requests);
  const double queued = s.queue_seconds + s.batch_queue_seconds;
  const double computed = s.prefill_seconds + s.decode_seconds + s.batch_compute_seconds;
  const double us = 1e6;
  ExpositionWriter out(label("model", r.model) + ",version=\"1\"");
  out.counter("nv_inference_request_success",
              "Number of successful inference requests, all batch sizes", ended);
  out.write_family("nv_inference_request_failure", "counter",
                   "Number of failed inference requests, all batch sizes");
  out.sample("nv_inference_request_failure", number(s.aborted), "reason=\"CANCELED\"");
  out.sample("nv_inference_request_failure", number(s.failed), "reason=\"BACKEND\"");
  out.sample("nv_inference_request_failure", number(s.rejected), "reason=\"REJECTED\"");
  out.sample("nv_inference_request_failure", 0, "reason=\"OTHER\"");
  out.counter("nv_inference_count",
              "Number of inferences performed (does not include cached requests)",
              number(s.finished_stop + s.finished_length + s.inferences));
  out.counter("nv_inference_exec_count",
              "Number of model executions performed (does not include cached requests)",
              number(s.steps + s.executions));
  out.counter("nv_inference_request_duration_us",
              "Cumulative inference request duration in microseconds (includes cached requests)",
              (queued + computed) * us);
  out.counter("nv_inference_queue_duration_us",
              "Cumulative inference queuing duration in microseconds (includes cached requests)",
              queued * us);
  out.counter(
      "nv_inference_compute_input_duration_us",
      "Cumulative compute input duration in microseconds (does not include cached requests)", 0);
  out.counter(
      "nv_inference_compute_infer_duration_us",
      "Cumulative compute inference duration in microseconds (does not include cached requests)",
      computed * us);
  out.counter("nv_inference_compute_output_duration_us",
              "Cumulative inference compute output duration in microseconds (does not include "
              "cached requests)",
              0);
  out.gauge("nv_inference_pending_request_count",
            "Instantaneous number of pending requests awaiting execution per-model.",
            number(r.gauges.waiting));

  ExpositionWriter gpus;
  const auto each = [&](std::string_view name, std::string_view type, std::string_view help,
                        double value) {
    gpus.write_family(name, type, help);
    for (std::uint32_t i = 0; i < r.preset.gpus; ++i) {
      gpus.sample(name, value, label("gpu_uuid", gpu_uuid(r.gpu_seed, i)));
    }
  };
  each("nv_gpu_utilization", "gauge", "GPU utilization rate [0.0 - 1.0)",
       std::min(r.gpu.utilization_ratio, 0.99));
  each("nv_gpu_memory_total_bytes", "gauge", "GPU total memory, in bytes",
       number(r.preset.gpu_memory_bytes));
  each("nv_gpu_memory_used_bytes", "gauge", "GPU used memory, in bytes", used_bytes(r));
  each("nv_gpu_power_usage", "gauge", "GPU power usage in watts", watts(r));
  each("nv_gpu_power_limit", "gauge", "GPU power management limit in watts", r.preset.full_watts);
  each("nv_energy_consumption", "counter",
       "GPU energy consumption in joules since the Triton Server started", joules(r));
  return out.take() + gpus.take();
}

std::string tgi_exposition(const EngineSnapshot& r) {
  const ServerStatistics& s = r.statistics;
  const double capacity = number(r.preset.engine.kv_blocks - 1) * r.preset.engine.block_tokens;
  ExpositionWriter out;
  out.gauge("tgi_queue_size", "Current number of requests in the queue.", number(r.gauges.waiting));
  out.gauge("tgi_batch_current_size", "Current batch size.", number(r.gauges.running));
  out.gauge("tgi_batch_current_max_tokens", "Maximum tokens of the current batch.",
            number(r.gauges.reserved_tokens));
  out.gauge("tgi_batch_max_total_tokens", "Maximum tokens for the whole server.", capacity);
  out.counter("tgi_request_count", "Total number of requests.", number(s.requests));
  out.counter("tgi_request_success", "Number of successful requests.",
              number(s.finished_stop + s.finished_length));
  out.write_family("tgi_request_failure", "counter", "Number of failed requests.");
  out.sample("tgi_request_failure", number(s.failed), "err=\"generation\"");
  out.histogram("tgi_request_duration", "Request duration in seconds.", s.e2e_latency);
  out.histogram("tgi_request_queue_duration", "Time spent in the queue in seconds.", s.queue_time);
  out.histogram("tgi_request_inference_duration", "Inference duration in seconds.",
                s.inference_time);
  out.histogram("tgi_request_mean_time_per_token_duration", "Mean time per token in seconds.",
                s.time_per_output_token);
  out.histogram("tgi_request_input_length", "Input length in tokens.", s.request_prompt_tokens);
  out.histogram("tgi_request_generated_tokens", "Generated tokens.", s.request_generation_tokens);
  out.histogram("tgi_request_max_new_tokens", "Maximum new tokens.", s.request_max_tokens);
  return out.take();
}

std::string llamacpp_exposition(const EngineSnapshot& r) {
  const ServerStatistics& s = r.statistics;
  const auto rate = [](double tokens, double seconds) {
    return seconds > 0 ? tokens / seconds : 0;
  };
  const double computed = number(s.prompt_tokens - s.cached_tokens);
  ExpositionWriter out;
  out.counter("llamacpp:prompt_tokens_total", "Number of prompt tokens processed.", computed);
  out.counter("llamacpp:prompt_seconds_total", "Prompt process time", s.prefill_seconds);
  out.counter("llamacpp:tokens_predicted_total", "Number of generation tokens processed.",
              s.request_generation_tokens.sum());  // moves when a request ends
  out.counter("llamacpp:tokens_predicted_seconds_total", "Predict process time", s.decode_seconds);
  out.counter("llamacpp:n_decode_total", "Total number of llama_decode() calls", number(s.steps));
  out.counter("llamacpp:n_tokens_max", "Largest observed n_tokens.",
              number(r.preset.engine.max_model_tokens));
  out.gauge("llamacpp:n_busy_slots_per_decode",
            "Average number of busy slots per llama_decode() call",
            rate(number(s.generated_tokens), number(s.steps)));
  out.gauge("llamacpp:prompt_tokens_seconds", "Average prompt throughput in tokens/s.",
            rate(computed, s.prefill_seconds));
  out.gauge("llamacpp:predicted_tokens_seconds", "Average generation throughput in tokens/s.",
            r.gauges.generated_per_second);
  out.gauge("llamacpp:requests_processing", "Number of requests processing.",
            number(r.gauges.running));
  out.gauge("llamacpp:requests_deferred", "Number of requests deferred.", number(r.gauges.waiting));
  return out.take();
}

std::string generic_exposition(const EngineSnapshot& r) {
  const ServerStatistics& s = r.statistics;
  ExpositionWriter out;
  out.gauge("sim_requests_running", "Requests in the batch.", number(r.gauges.running));
  out.gauge("sim_requests_waiting", "Requests in the line.", number(r.gauges.waiting));
  out.gauge("sim_kv_cache_usage_ratio", "KV blocks in use.", r.gauges.kv_cache_ratio);
  out.counter("sim_requests_total", "Requests begun.", number(s.requests));
  out.counter("sim_prompt_tokens_total", "Prompt tokens.", number(s.prompt_tokens));
  out.counter("sim_generated_tokens_total", "Generated tokens.", number(s.generated_tokens));
  out.histogram("sim_time_to_first_token_seconds", "Time to the first token.",
                s.time_to_first_token);
  return out.take();
}

}  // namespace

std::optional<EngineKind> parse_engine_kind(std::string_view name) {
  for (std::size_t i = 0; i < kind_names.size(); ++i) {
    if (kind_names[i] == name) return static_cast<EngineKind>(i);
  }
  return std::nullopt;
}

std::string_view to_string(EngineKind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

std::string engine_kind_list() { return fmt::format("{}", fmt::join(kind_names, ", ")); }

std::string_view model_owner(EngineKind kind, std::string_view model) {
  switch (kind) {
    case EngineKind::tgi: return model;
    case EngineKind::generic: return "evenkeel-sim";
    default: return to_string(kind);
  }
}

std::string error_body(EngineKind kind, const ApiError& error) {
  const std::string message = json_string(error.message);
  const std::string param = error.param.empty() ? "null" : json_string(error.param);
  switch (kind) {
    case EngineKind::sglang:
      return fmt::format(R"({{"object":"error","message":{},"type":"{}","param":{},"code":{}}})",
                         message, vllm_error_type(error.status), param, error.status);
    case EngineKind::tgi:
      return fmt::format(R"({{"error":{},"error_type":"{}"}})", message,
                         tgi_error_type(error.status));
    case EngineKind::llamacpp:
      return fmt::format(R"({{"error":{{"code":{},"message":{},"type":"{}"}}}})", error.status,
                         message, llamacpp_error_type(error.status));
    default:
      return fmt::format(R"({{"error":{{"message":{},"type":"{}","param":{},"code":{}}}}})",
                         message, vllm_error_type(error.status), param, error.status);
  }
}

std::string kserve_error_body(std::string_view message) {
  return fmt::format(R"({{"error":{}}})", json_string(message));
}

std::string exposition(const EngineSnapshot& snapshot) {
  switch (snapshot.kind) {
    case EngineKind::vllm: return vllm_exposition(snapshot);
    case EngineKind::sglang: return sglang_exposition(snapshot);
    case EngineKind::triton: return triton_exposition(snapshot);
    case EngineKind::tgi: return tgi_exposition(snapshot);
    case EngineKind::llamacpp: return llamacpp_exposition(snapshot);
    case EngineKind::generic: return generic_exposition(snapshot);
  }
  return {};
}

std::string dcgm_exposition(const EngineSnapshot& r) {
  constexpr double mebibyte = 1 << 20;
  const double total = number(r.preset.gpu_memory_bytes) / mebibyte;
  const double reserved = 600;
  const double used = used_bytes(r) / mebibyte;
  const double busy = r.gpu.utilization_ratio;
  ExpositionWriter out;
  const auto each = [&](std::string_view name, std::string_view type, std::string_view help,
                        double value) {
    out.write_family(name, type, help);
    for (std::uint32_t i = 0; i < r.preset.gpus; ++i) {
      out.sample(
          name, value,
          fmt::format("gpu=\"{0}\",{1},pci_bus_id=\"00000000:{2:02X}:00.0\",device=\"nvidia{0}\","
                      "{3},hostname=\"sim\",DCGM_FI_DRIVER_VERSION=\"590.48.01\"",
                      i, label("UUID", gpu_uuid(r.gpu_seed, i)), 0x18 + 0x10 * i,
                      label("modelName", r.preset.gpu)));
    }
  };
  each("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", busy > 0 ? 1980 : 345);
  each("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz).", 2619);
  each("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", std::round(33 + 35 * busy));
  each("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", watts(r));
  each("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter",
       "Total energy consumption since boot (in mJ).", std::floor(joules(r) * 1000));
  each("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", std::round(busy * 100));
  each("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %).", std::round(busy * 60));
  each("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered.", 0);
  each("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).",
       std::max(0.0, std::floor(total - reserved - used)));
  each("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", std::floor(used));
  each("DCGM_FI_DEV_FB_RESERVED", "gauge", "Framebuffer memory reserved (in MiB).", reserved);
  each("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active.",
       busy);
  each("DCGM_FI_PROF_DRAM_ACTIVE", "gauge",
       "Ratio of cycles the device memory interface is active.", busy * 0.7);
  return out.take();
}

}  // namespace evenkeel
