// No engine in particular: OpenAI's API and KServe's, and metrics of its own.
#include <fmt/format.h>

#include <string>

#include "evenkeel/http/grpc.h"
#include "evenkeel/json/writer.h"
#include "sim/engine_api.h"
#include "sim/engine_errors.h"
#include "sim/engine_page.h"
#include "sim/http_response.h"
#include "sim/kserve_grpc.h"
#include "sim/kserve_http.h"
#include "sim/openai_endpoints.h"
#include "sim/simulated_model.h"

namespace evenkeel {
namespace {

class Generic final : public EngineApi {
 public:
  explicit Generic(SimulatedModel& model)
      : model_(model), openai_(model, *this), kserve_(model), grpc_(model) {}

  Task<Result<Response>> handle(Request& request, int client_fd) override {
    if (is_grpc(request)) return grpc_.handle(request, client_fd);
    if (path_of(request.path) == "/health") {
      return Result<Response>(respond(model_.loading() ? 503 : 200, "text/plain", ""));
    }
    if (KserveHttp::handles(request)) return kserve_.handle(request, client_fd);
    return openai_.handle(request, client_fd);
  }
  std::string error_body(const ApiError& error) const override { return openai_error_body(error); }
  std::string metrics_page(const EngineSnapshot& snapshot) const override;

 private:
  SimulatedModel& model_;
  OpenAiEndpoints openai_;
  KserveHttp kserve_;
  KserveGrpc grpc_;
};

std::string Generic::metrics_page(const EngineSnapshot& r) const {
  const ServerStatistics& s = r.statistics;
  EnginePage page;
  page.gauge("sim_requests_running", "Requests in the batch.", r.gauges.running);
  page.gauge("sim_requests_waiting", "Requests in the queue.", r.gauges.waiting);
  page.gauge("sim_kv_cache_usage_ratio", "KV blocks in use.", r.gauges.kv_cache_ratio);
  page.counter("sim_requests_total", "Requests begun.", s.requests);
  page.counter("sim_prompt_tokens_total", "Prompt tokens.", s.prompt_tokens);
  page.counter("sim_generated_tokens_total", "Generated tokens.", s.generated_tokens);
  page.histogram("sim_time_to_first_token_seconds", "Time to the first token.",
                 s.time_to_first_token);
  return page.take();
}

}  // namespace

extern const SimulatedEngine simulated_generic;
const SimulatedEngine simulated_generic = {
    .name = "generic",
    .make = [](SimulatedModel& model) -> std::unique_ptr<EngineApi> {
      return std::make_unique<Generic>(model);
    },
    .model_owner = "evenkeel-sim",
};

}  // namespace evenkeel
