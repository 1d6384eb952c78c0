// OpenAI's API in front of a simulated model, as every engine here serves it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/engine_api.h"
#include "sim/openai_request.h"
#include "sim/simulated_model.h"

namespace evenkeel {

/// `/v1/models`, `/v1/chat/completions`, `/v1/completions`, `/v1/embeddings`, and vLLM's
/// `/tokenize`. Errors have the engine's shape.
class OpenAiEndpoints {
 public:
  /// `api` writes the errors; both outlive this object.
  OpenAiEndpoints(SimulatedModel& model, const EngineApi& api) : model_(model), api_(api) {}

  /// Answers anything: 404 where there is no such endpoint, and `unimplemented` to gRPC calls.
  Task<Result<Response>> handle(Request& request, int client_fd);
  Response models() const;
  Response error(const ApiError& error) const;

 private:
  Task<Result<Response>> infer(Request& request, int client_fd);
  Task<Result<Response>> complete(OpenAiApi api, std::string body, int client_fd);
  Task<Result<Response>> embed(std::string body, int client_fd);
  Response tokenize(std::string body);
  CompletionHead completion_head(OpenAiApi api, std::string_view body) const;
  std::optional<ApiError> plan_all(const OpenAiRequest& request, const CompletionHead& head,
                                   std::vector<ChoiceSpec>& plans);

  SimulatedModel& model_;
  const EngineApi& api_;
};

}  // namespace evenkeel
