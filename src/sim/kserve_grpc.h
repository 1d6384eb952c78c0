// KServe's v2 inference protocol over gRPC, as Triton serves it, and gRPC's health check.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/http/message.h"
#include "evenkeel/inference/grpc_response.h"
#include "evenkeel/inference/kserve_grpc.h"
#include "sim/simulated_model.h"

namespace evenkeel {

/// `inference.GRPCInferenceService` and `grpc.health.v1.Health/Check`; generates text for
/// a request with `text_input`, else runs an identity model.
class KserveGrpc {
 public:
  explicit KserveGrpc(SimulatedModel& model) : model_(model) {}

  /// Answers any gRPC call; `unimplemented` where there is no such method.
  Task<Result<Response>> handle(Request& request, int client_fd);

 private:
  Task<Result<Response>> check_health(Request& request);
  Task<Result<Response>> call(Request& request, int client_fd);
  Response describe(std::string_view method, std::string_view message);
  Task<Result<Response>> model_infer(std::string message, int client_fd);
  Task<void> answer(std::string message, bool as_grpc_error, GrpcStreamWriter& writer,
                    int client_fd);
  Task<void> stream_text(const ModelInferRequest& request, ChoiceSpec plan,
                         GrpcStreamWriter& writer, int client_fd);

  std::optional<GrpcError> unavailable_model(std::string_view name, std::string_view version) const;
  std::optional<GrpcError> check(const ModelInferRequest& request, std::uint32_t& items) const;
  GrpcResult<ChoiceSpec> plan_text(const ModelInferRequest& request);
  Task<GrpcResult<ModelInferResponse>> run(ModelInferRequest& request, std::uint32_t items,
                                           int client_fd);

  SimulatedModel& model_;
};

}  // namespace evenkeel
