// The messages of KServe v2 over gRPC (`inference.GRPCInferenceService`) and of gRPC's own health
// check (`grpc.health.v1.Health`), without their framing (grpc_message.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "evenkeel/base/result.h"

namespace evenkeel {

/// A request's or a tensor's parameter: `sequence_id`, `priority`, `triton_final_response`, ...
using InferParameter = std::variant<bool, std::int64_t, std::string, double, std::uint64_t>;
using InferParameters = std::map<std::string, InferParameter, std::less<>>;

struct InferTensor {
  std::string name;
  std::string datatype;  ///< "FP32", "BYTES", ...
  std::vector<std::int64_t> shape;
  InferParameters parameters;
  /// The elements as in raw_input_contents, however they were sent: little endian, row by row; one
  /// of BYTES after its length in four bytes. Empty if the data is in shared memory.
  std::string data;
};

struct ModelInferRequest {
  std::string model_name;
  std::string model_version;
  std::string id;
  InferParameters parameters;
  std::vector<InferTensor> inputs;
  std::vector<std::string> outputs;  ///< names of the wanted outputs; empty: all
};

struct ModelInferResponse {
  std::string model_name;
  std::string model_version;
  std::string id;
  InferParameters parameters;
  std::vector<InferTensor> outputs;
};

/// An error or a response: an error ends its request, not the stream.
struct ModelStreamInferResponse {
  std::string error_message;
  ModelInferResponse response;
};

struct ModelMetadata {
  std::string name;
  std::vector<std::string> versions;
  std::string platform;
  std::vector<InferTensor> inputs;  ///< without data
  std::vector<InferTensor> outputs;
};

struct ServerMetadata {
  std::string name;
  std::string version;
  std::vector<std::string> extensions;
};

/// The model of a ModelReadyRequest or a ModelMetadataRequest, which have the same fields.
struct ModelId {
  std::string name;
  std::string version;
};

/// The status of grpc.health.v1.HealthCheckResponse.
enum class ServingStatus : std::uint8_t { unknown, serving, not_serving, service_unknown };

/// Errors of all decoders: bad_request, if the bytes are not such a message, or if the data of an
/// input is given twice or not at all.
Result<ModelInferRequest> decode_model_infer_request(std::string_view message);
Result<ModelInferResponse> decode_model_infer_response(std::string_view message);
Result<ModelStreamInferResponse> decode_model_stream_infer_response(std::string_view message);
Result<ModelId> decode_model_id(std::string_view message);
Result<std::string> decode_health_check_request(std::string_view message);
Result<ServingStatus> decode_health_check_response(std::string_view message);
/// Decodes ServerLiveResponse, ServerReadyResponse and ModelReadyResponse.
Result<bool> decode_readiness(std::string_view message);
Result<ModelMetadata> decode_model_metadata(std::string_view message);

std::string encode(const ModelInferRequest& request);
std::string encode(const ModelInferResponse& response);
std::string encode(const ModelStreamInferResponse& response);
std::string encode(const ModelMetadata& metadata);
std::string encode(const ServerMetadata& metadata);
std::string encode(const ModelId& model);
std::string encode_health_check_request(std::string_view service);
std::string encode(ServingStatus status);
std::string encode_readiness(bool ready);

/// How many elements a tensor of that shape has; nothing for a negative dimension, or if the count
/// overflows.
std::optional<std::uint64_t> elements_of(const std::vector<std::int64_t>& shape);
/// How many bytes an element takes; 0 if it depends on the element (BYTES), nothing for an unknown
/// datatype.
std::optional<std::uint64_t> element_bytes(std::string_view datatype);
/// The first element of a tensor of BYTES.
std::optional<std::string_view> first_text(const InferTensor& tensor);
/// A tensor of BYTES with one element.
InferTensor text_tensor(std::string name, std::string_view text);

}  // namespace evenkeel
