// No engine in particular: OpenAI's API and KServe's, and metrics of its own.
#include <fmt/format.h>

#include <string>

#include "evenkeel/http/grpc.h"
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

class Generic final : public OpenAiEngine {
 public:
  explicit Generic(SimulatedModel& model) : OpenAiEngine(model), kserve_(model), grpc_(model) {}

  Task<Result<Response>> handle(Request& request, int client_fd) override {
    if (is_grpc(request)) return grpc_.handle(request, client_fd);
    if (KserveHttp::handles(request)) return kserve_.handle(request, client_fd);
    return OpenAiEngine::handle(request, client_fd);
  }
  std::string metrics_page(const EngineSnapshot& snapshot) const override;

 private:
  std::optional<Response> page(std::string_view, std::string_view path) override {
    if (path != "/health") return std::nullopt;
    return respond(model_.loading() ? 503 : 200, "text/plain", "");
  }

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

const SimulatedEngine simulated_generic = {
    .name = "generic",
    .make = make_engine<Generic>,
    .model_owner = "evenkeel-sim",
};

}  // namespace evenkeel
