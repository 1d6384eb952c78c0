// A simulated engine with OpenAI's API, as all engines here have it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/engine_api.h"
#include "sim/engine_errors.h"
#include "sim/openai_request.h"
#include "sim/openai_response.h"
#include "sim/simulated_model.h"

namespace evenkeel {

/// `/v1/models`, `/v1/chat/completions`, `/v1/completions`, `/v1/embeddings`, and vLLM's
/// `/tokenize`. Errors have the engine's shape.
class OpenAiEngine : public EngineApi {
 public:
  explicit OpenAiEngine(SimulatedModel& model) : model_(model) {}

  /// Answers anything: with the engine's own page, else by OpenAI's API; 404 where there is no such
  /// endpoint, and `unimplemented` to gRPC calls.
  Task<Result<Response>> handle(Request& request, int client_fd) override;
  std::string error_body(const ApiError& error) const override { return openai_error_body(error); }

 protected:
  /// A page of this engine alone. Nothing: there is none.
  virtual std::optional<Response> page(std::string_view method, std::string_view path) = 0;
  Response models() const;
  Response error(const ApiError& error) const;

  SimulatedModel& model_;

 private:
  Task<Result<Response>> infer(Request& request, int client_fd);
  Task<Result<Response>> complete(OpenAiApi api, std::string body, int client_fd);
  Task<Result<Response>> embed(std::string body, int client_fd);
  Task<std::optional<Usage>> run_embeddings(std::vector<ChoiceSpec> plans, int client_fd);
  Response tokenize(std::string body);
  CompletionHead completion_head(OpenAiApi api, std::string_view body) const;
  std::optional<ApiError> plan_all(const OpenAiRequest& request, const CompletionHead& head,
                                   std::vector<ChoiceSpec>& plans);
};

}  // namespace evenkeel
