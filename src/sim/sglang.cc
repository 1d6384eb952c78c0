// SGLang's API server.
#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "evenkeel/json/writer.h"
#include "sim/engine_api.h"
#include "sim/engine_errors.h"
#include "sim/engine_page.h"
#include "sim/http_response.h"
#include "sim/openai_engine.h"
#include "sim/simulated_model.h"

namespace evenkeel {
namespace {

constexpr double sglang_request_bounds[] = {.1, .2, .4, .6, .8, 1,  2,   4,   6,
                                            8,  10, 20, 40, 60, 80, 100, 200, 400};
constexpr double sglang_token_bounds[] = {.002, .004, .006, .008, .01, .015, .02, .025,
                                          .03,  .035, .04,  .06,  .08, .1,   .2,  .4,
                                          .6,   .8,   1,    2,    4,   6,    8};

class Sglang final : public OpenAiEngine {
 public:
  using OpenAiEngine::OpenAiEngine;

  Task<Result<Response>> handle(Request& request, int client_fd) override {
    const std::string_view path = path_of(request.path);
    const bool generates = request.method == "GET" && !model_.loading() &&
                           (path == "/health" || path == "/health_generate");
    return generates ? health() : OpenAiEngine::handle(request, client_fd);
  }
  std::string error_body(const ApiError& error) const override {
    return fmt::format(R"({{"object":"error","message":{},"type":"{}","param":{},"code":{}}})",
                       json_string(error.message), vllm_error_type(error.status),
                       error_param(error), error.status);
  }
  std::string metrics_page(const EngineSnapshot& snapshot) const override;

 private:
  std::optional<Response> page(std::string_view method, std::string_view path) override;
  Task<Result<Response>> health();
  std::string loads();
};

/// A healthy server answers by generating a token, for which it looks once a second.
Task<Result<Response>> Sglang::health() {
  const std::chrono::duration<double> second(1 / model_.options().speed);
  co_await model_.loop().sleep_for(std::chrono::duration_cast<Duration>(second));
  co_return respond(200, "text/plain", "");
}

std::optional<Response> Sglang::page(std::string_view method, std::string_view path) {
  if (path == "/health") return respond(model_.loading() ? 503 : 200, "text/plain", "");
  if (method != "GET" && method != "HEAD") return std::nullopt;
  const std::string model = json_string(model_.name());
  if (path == "/model_info" || path == "/get_model_info") {
    return respond_json(200, fmt::format(R"({{"model_path":{},"is_generation":true}})", model));
  }
  if (path == "/server_info" || path == "/get_server_info") {
    return respond_json(
        200,
        fmt::format(R"({{"model_path":{0},"served_model_name":{0},"kv_events":null}})", model));
  }
  if (path == "/v1/loads") return respond_json(200, loads());
  return std::nullopt;
}

/// Fresher than the metrics page: it reads the engine itself.
std::string Sglang::loads() {
  const EngineSpec& spec = model_.preset().engine;
  const StepEngine& engine = model_.runner().engine();
  const double capacity = static_cast<double>(spec.kv_blocks - 1) * spec.block_tokens;
  return fmt::format(
      R"({{"timestamp":{:.3f},"version":"0.5.23+sim","accelerator":{},"num_accelerators":{},)"
      R"("loads":[{{"dp_rank":0,"num_running_reqs":{},"num_waiting_reqs":{},"num_used_tokens":{:.0f},)"
      R"("max_total_num_tokens":{:.0f},"token_usage":{},"max_running_requests":{}}}]}})",
      unix_seconds(), json_string(model_.preset().gpu), model_.preset().gpus, engine.running(),
      engine.waiting(), engine.kv_cache_ratio() * capacity, capacity, engine.kv_cache_ratio(),
      spec.max_sequences);
}

std::string Sglang::metrics_page(const EngineSnapshot& r) const {
  const ServerStatistics& s = r.statistics;
  const Labels process{{"engine_type", "unified"}, {"model_name", r.model}};
  Labels rank = process;
  for (const char* name : {"moe_ep_rank", "pp_rank", "tp_rank"}) rank.add({name, "0"});
  EnginePage page(rank);
  const double capacity = number(r.preset.engine.kv_blocks - 1) * r.preset.engine.block_tokens;
  const double used = r.gauges.kv_cache_ratio * capacity;
  const double hit_rate =
      s.prompt_tokens == 0 ? 0 : number(s.cached_tokens) / number(s.prompt_tokens);
  page.gauge("sglang:num_running_reqs", "The number of running requests.", r.gauges.running);
  page.gauge("sglang:num_queue_reqs", "The number of requests in the waiting queue.",
             r.gauges.waiting);
  page.gauge("sglang:num_used_tokens", "The number of used tokens.", used);
  page.gauge("sglang:kv_available_tokens", "The number of tokens that are free.", capacity - used);
  page.gauge("sglang:max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.",
             capacity);
  page.gauge("sglang:token_usage", "The token usage.", r.gauges.kv_cache_ratio);
  page.gauge("sglang:cache_hit_rate", "The prefix cache hit rate.", hit_rate);
  page.gauge("sglang:gen_throughput", "The generation throughput (token/s).",
             r.gauges.generated_per_second);
  page.gauge("sglang:page_size", "The page size of the KV cache.", r.preset.engine.block_tokens);
  page.gauge("sglang:context_len", "The context length.", r.preset.engine.max_model_tokens);
  page.counter("sglang:num_retracted_requests_total", "Number of retracted requests.",
               s.preemptions);

  EnginePage front(process);
  front.counter("sglang:prompt_tokens_total", "Number of prefill tokens processed.",
                s.prompt_tokens);
  front.counter("sglang:generation_tokens_total", "Number of generation tokens processed.",
                s.generated_tokens);
  front.counter("sglang:cached_tokens_total", "Number of cached prompt tokens.", s.cached_tokens);
  front.counter("sglang:num_requests_total", "Number of requests processed.", s.requests);
  front.counter("sglang:num_aborted_requests_total", "Number of requests aborted.", s.aborted);
  front.histogram("sglang:time_to_first_token_seconds",
                  "Histogram of time to first token in seconds.", s.time_to_first_token);
  front.histogram("sglang:inter_token_latency_seconds",
                  "Histogram of inter-token latency in seconds.", s.inter_token_latency);
  front.histogram("sglang:e2e_request_latency_seconds",
                  "Histogram of End-to-end request latency in seconds", s.e2e_latency);
  front.histogram("sglang:queue_time_seconds", "Histogram of queueing time in seconds.",
                  s.queue_time);
  return page.take() + front.take();
}

}  // namespace

const SimulatedEngine simulated_sglang = {
    .name = "sglang",
    .make = make_engine<Sglang>,
    .model_owner = "sglang",
    .idle_timeout = std::chrono::seconds(5),  // uvicorn's
    .head_with_first_token = true,            // it checks the request with the first chunk
    .writes_null_usage = true,
    .publishes_gauges_by_step = true,
    .buckets = {.first_token = sglang_request_bounds,
                .token_latency = sglang_token_bounds,
                .request = sglang_request_bounds,
                .time_per_output_token = sglang_token_bounds},
};

}  // namespace evenkeel
