// NVIDIA's Triton Inference Server.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "evenkeel/http/grpc.h"
#include "evenkeel/json/writer.h"
#include "sim/dcgm.h"
#include "sim/engine_api.h"
#include "sim/engine_errors.h"
#include "sim/engine_page.h"
#include "sim/http_response.h"
#include "sim/kserve_grpc.h"
#include "sim/kserve_http.h"
#include "sim/openai_engine.h"
#include "sim/simulated_model.h"

namespace evenkeel {
namespace {

std::string request_metrics(const EngineSnapshot& r) {
  const ServerStatistics& s = r.statistics;
  const double ended = number(s.finished_stop + s.finished_length + s.batched_requests);
  const double queued = s.queue_seconds + s.batch_queue_seconds;
  const double computed = s.prefill_seconds + s.decode_seconds + s.batch_compute_seconds;
  const double us = 1e6;
  EnginePage page({{"model", r.model}, {"version", "1"}});
  page.counter("nv_inference_request_success",
               "Number of successful inference requests, all batch sizes", ended);
  page.counters("nv_inference_request_failure",
                "Number of failed inference requests, all batch sizes");
  page.sample(s.aborted, {{"reason", "CANCELED"}});
  page.sample(s.failed, {{"reason", "BACKEND"}});
  page.sample(s.rejected, {{"reason", "REJECTED"}});
  page.sample(0, {{"reason", "OTHER"}});
  page.counter("nv_inference_count",
               "Number of inferences performed (does not include cached requests)",
               s.finished_stop + s.finished_length + s.inferences);
  page.counter("nv_inference_exec_count",
               "Number of model executions performed (does not include cached requests)",
               s.steps + s.executions);
  page.counter("nv_inference_request_duration_us",
               "Cumulative inference request duration in microseconds (includes cached requests)",
               (queued + computed) * us);
  page.counter("nv_inference_queue_duration_us",
               "Cumulative inference queuing duration in microseconds (includes cached requests)",
               queued * us);
  page.counter(
      "nv_inference_compute_input_duration_us",
      "Cumulative compute input duration in microseconds (does not include cached requests)", 0);
  page.counter(
      "nv_inference_compute_infer_duration_us",
      "Cumulative compute inference duration in microseconds (does not include cached requests)",
      computed * us);
  page.counter("nv_inference_compute_output_duration_us",
               "Cumulative inference compute output duration in microseconds (does not include "
               "cached requests)",
               0);
  page.gauge("nv_inference_pending_request_count",
             "Instantaneous number of pending requests awaiting execution per-model.",
             r.gauges.waiting);
  return page.take();
}

std::string gpu_metrics(const EngineSnapshot& r) {
  EnginePage page;
  const auto samples = [&](auto value) {
    for (std::uint32_t i = 0; i < r.preset.gpus; ++i) {
      page.sample(value, {{"gpu_uuid", gpu_uuid(r.gpu_seed, i)}});
    }
  };
  page.gauges("nv_gpu_utilization", "GPU utilization rate [0.0 - 1.0)");
  samples(std::min(r.gpu.utilization_ratio, 0.99));
  page.gauges("nv_gpu_memory_total_bytes", "GPU total memory, in bytes");
  samples(r.preset.gpu_memory_bytes);
  page.gauges("nv_gpu_memory_used_bytes", "GPU used memory, in bytes");
  samples(gpu_used_bytes(r));
  page.gauges("nv_gpu_power_usage", "GPU power usage in watts");
  samples(gpu_watts(r));
  page.gauges("nv_gpu_power_limit", "GPU power management limit in watts");
  samples(r.preset.full_watts);
  page.counters("nv_energy_consumption",
                "GPU energy consumption in joules since the Triton Server started");
  samples(gpu_joules(r));
  return page.take();
}

class Triton final : public OpenAiEngine {
 public:
  explicit Triton(SimulatedModel& model) : OpenAiEngine(model), kserve_(model), grpc_(model) {}

  Task<Result<Response>> handle(Request& request, int client_fd) override {
    if (is_grpc(request)) return grpc_.handle(request, client_fd);
    if (KserveHttp::handles(request)) return kserve_.handle(request, client_fd);
    return OpenAiEngine::handle(request, client_fd);
  }
  std::string metrics_page(const EngineSnapshot& snapshot) const override;

 private:
  std::optional<Response> page(std::string_view method, std::string_view path) override {
    auto health = this->health(method, path);
    return health || (method != "GET" && method != "HEAD") ? std::move(health) : metadata(path);
  }
  std::optional<Response> health(std::string_view method, std::string_view path);
  std::optional<Response> metadata(std::string_view path);

  KserveHttp kserve_;
  KserveGrpc grpc_;
};

std::optional<Response> Triton::health(std::string_view method, std::string_view path) {
  const auto model = parse_kserve_path(path);
  const bool of_model = model && model->verb == "ready";
  if (path != "/v2/health/live" && path != "/v2/health/ready" && !of_model) return std::nullopt;
  if (method != "GET") return respond(405, "text/plain", "");
  if (path == "/v2/health/live") return respond(200, "text/plain", "");
  const bool ready = !model_.loading() && (!of_model || model->model == model_.name());
  if (ready) return respond(200, "text/plain", "");
  return of_model ? KserveHttp::error(400, "Model version not ready")
                  : respond(400, "text/plain", "");
}

std::optional<Response> Triton::metadata(std::string_view path) {
  if (path == "/v2") {
    return respond_json(200,
                        R"({"name":"triton","version":"2.51.0+sim","extensions":["generate"]})");
  }
  constexpr std::string_view models = "/v2/models/";
  if (!path.starts_with(models)) return std::nullopt;
  const auto version = parse_kserve_path(path);
  const bool known = path.substr(models.size()) == model_.name() ||
                     (version && version->verb == "1" && version->model == model_.name());
  if (!known) return std::nullopt;
  return respond_json(200, fmt::format(R"({{"name":{},"versions":["1"],"platform":"sim"}})",
                                       json_string(model_.name())));
}

std::string Triton::metrics_page(const EngineSnapshot& snapshot) const {
  return request_metrics(snapshot) + gpu_metrics(snapshot);
}

}  // namespace

const SimulatedEngine simulated_triton = {
    .name = "triton",
    .make = make_engine<Triton>,
    .model_owner = "triton",
    .head_with_first_token = true,
};

}  // namespace evenkeel
