// llama.cpp's server.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "evenkeel/json/writer.h"
#include "sim/engine_api.h"
#include "sim/engine_page.h"
#include "sim/http_response.h"
#include "sim/openai_engine.h"
#include "sim/simulated_model.h"

namespace evenkeel {
namespace {

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

class LlamaCpp final : public OpenAiEngine {
 public:
  using OpenAiEngine::OpenAiEngine;

  std::string error_body(const ApiError& error) const override {
    return fmt::format(R"({{"error":{{"code":{},"message":{},"type":"{}"}}}})", error.status,
                       json_string(error.message), llamacpp_error_type(error.status));
  }
  std::string metrics_page(const EngineSnapshot& snapshot) const override;

 private:
  std::optional<Response> page(std::string_view method, std::string_view path) override;
};

std::optional<Response> LlamaCpp::page(std::string_view method, std::string_view path) {
  if (path == "/health" || path == "/v1/health") {
    if (model_.loading()) return error({.status = 503, .message = "Loading model"});
    return respond_json(200, R"({"status":"ok"})");
  }
  if (method != "GET" && method != "HEAD") return std::nullopt;
  if (path == "/models") return models();
  if (path != "/props") return std::nullopt;
  return respond_json(
      200, fmt::format(R"({{"total_slots":{},"model_path":{},"is_sleeping":false}})",
                       model_.preset().engine.max_sequences, json_string(model_.name())));
}

std::string LlamaCpp::metrics_page(const EngineSnapshot& r) const {
  const ServerStatistics& s = r.statistics;
  const auto rate = [](double tokens, double seconds) {
    return seconds > 0 ? tokens / seconds : 0;
  };
  const double computed = number(s.prompt_tokens - s.cached_tokens);
  EnginePage page;
  page.counter("llamacpp:prompt_tokens_total", "Number of prompt tokens processed.", computed);
  page.counter("llamacpp:prompt_tokens_cached_total",
               "Number of prompt tokens reused from the cache", s.cached_tokens);
  page.counter("llamacpp:prompt_seconds_total", "Prompt process time", s.prefill_seconds);
  page.counter("llamacpp:tokens_predicted_total", "Number of generation tokens processed.",
               s.request_generation_tokens.sum());  // moves when a request ends
  page.counter("llamacpp:tokens_predicted_seconds_total", "Predict process time", s.decode_seconds);
  page.counter("llamacpp:n_decode_total", "Total number of llama_decode() calls", s.steps);
  page.counter("llamacpp:n_tokens_max", "Largest observed n_tokens.",
               r.preset.engine.max_model_tokens);
  page.gauge("llamacpp:n_busy_slots_per_decode",
             "Average number of busy slots per llama_decode() call",
             rate(number(s.generated_tokens), number(s.steps)));
  page.gauge("llamacpp:prompt_tokens_seconds", "Average prompt throughput in tokens/s.",
             rate(computed, s.prefill_seconds));
  page.gauge("llamacpp:predicted_tokens_seconds", "Average generation throughput in tokens/s.",
             r.gauges.generated_per_second);
  page.gauge("llamacpp:requests_processing", "Number of requests processing.", r.gauges.running);
  page.gauge("llamacpp:requests_deferred", "Number of requests deferred.", r.gauges.waiting);
  return page.take();
}

}  // namespace

const SimulatedEngine simulated_llamacpp = {
    .name = "llamacpp",
    .make = make_engine<LlamaCpp>,
    .model_owner = "llamacpp",
    .idle_timeout = std::chrono::seconds(5),  // cpp-httplib's
    .head_with_first_token = true,            // an error of the first token gets its own status
};

}  // namespace evenkeel
