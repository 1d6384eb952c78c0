// Hugging Face's Text Generation Inference.
#include <fmt/format.h>

#include <array>
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

/// TGI's metrics exporter: from 0.1 ms, times 1.5.
constexpr std::array<double, 41> tgi_bounds = [] {
  std::array<double, 41> bounds{};
  double bound = 0.0001;
  for (double& each : bounds) {
    each = bound;
    bound *= 1.5;
  }
  return bounds;
}();
static_assert(tgi_bounds.back() < 1500 && tgi_bounds.back() * 1.5 >= 1500);

std::string_view tgi_error_type(int status) {
  switch (status) {
    case 429: return "overloaded";
    case 424: return "generation";
    case 503: return "healthcheck";
    default: return "validation";
  }
}

class Tgi final : public OpenAiEngine {
 public:
  using OpenAiEngine::OpenAiEngine;

  std::string error_body(const ApiError& error) const override {
    return fmt::format(R"({{"error":{},"error_type":"{}"}})", json_string(error.message),
                       tgi_error_type(error.status));
  }
  std::string metrics_page(const EngineSnapshot& snapshot) const override;

 private:
  std::optional<Response> page(std::string_view method, std::string_view path) override;
};

std::optional<Response> Tgi::page(std::string_view method, std::string_view path) {
  if (path == "/health" || path == "/ping") {
    if (!model_.loading()) return respond(200, "text/plain", "");
    return respond_json(503, R"({"error":"unhealthy","error_type":"healthcheck"})");
  }
  if (method != "GET" && method != "HEAD") return std::nullopt;
  if (path != "/info") return std::nullopt;
  return respond_json(
      200, fmt::format(R"({{"model_id":{},"max_total_tokens":{},"version":"3.3.6+sim"}})",
                       json_string(model_.name()), model_.runner().max_tokens()));
}

std::string Tgi::metrics_page(const EngineSnapshot& r) const {
  const ServerStatistics& s = r.statistics;
  const double capacity = number(r.preset.engine.kv_blocks - 1) * r.preset.engine.block_tokens;
  EnginePage page;
  page.gauge("tgi_queue_size", "Current number of requests in the queue.", r.gauges.waiting);
  page.gauge("tgi_batch_current_size", "Current batch size.", r.gauges.running);
  page.gauge("tgi_batch_current_max_tokens", "Maximum tokens of the current batch.",
             r.gauges.reserved_tokens);
  page.gauge("tgi_batch_max_total_tokens", "Maximum tokens for the whole server.", capacity);
  page.counter("tgi_request_count", "Total number of requests.", s.requests);
  page.counter("tgi_request_success", "Number of successful requests.",
               s.finished_stop + s.finished_length);
  page.counters("tgi_request_failure", "Number of failed requests.");
  page.sample(s.failed, {{"err", "generation"}});
  page.histogram("tgi_request_duration", "Request duration in seconds.", s.e2e_latency);
  page.histogram("tgi_request_queue_duration", "Time spent in the queue in seconds.", s.queue_time);
  page.histogram("tgi_request_inference_duration", "Inference duration in seconds.",
                 s.inference_time);
  page.histogram("tgi_request_mean_time_per_token_duration", "Mean time per token in seconds.",
                 s.time_per_output_token);
  page.histogram("tgi_request_input_length", "Input length in tokens.", s.request_prompt_tokens);
  page.histogram("tgi_request_generated_tokens", "Generated tokens.", s.request_generation_tokens);
  page.histogram("tgi_request_max_new_tokens", "Maximum new tokens.", s.request_max_tokens);
  return page.take();
}

}  // namespace

const SimulatedEngine simulated_tgi = {
    .name = "tgi",
    .make = make_engine<Tgi>,
    .writes_null_usage = true,
    .buckets = {.request = tgi_bounds, .time_per_output_token = tgi_bounds},
};

}  // namespace evenkeel
