#include "evenkeel/inference/kserve_grpc.h"

#include <google/protobuf/stubs/logging.h>
#include <proto/health.pb.h>
#include <proto/kserve.pb.h>

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

namespace evenkeel {
namespace {

namespace wire = ::inference;
namespace health = ::grpc::health::v1;

static_assert(std::endian::native == std::endian::little, "raw contents are copied as they are");

// The library reports malformed text on stderr, which clients and servers could fill. Here it is an
// Error like others.
[[maybe_unused]] const auto previous_log_handler = google::protobuf::SetLogHandler(nullptr);

Error bad_message(std::string detail) {
  return {.fault = Fault::bad_request, .side = Side::client, .detail = std::move(detail)};
}

template <class Message>
bool parse(std::string_view bytes, Message& message) {
  return bytes.size() <= std::numeric_limits<int>::max() &&
         message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

Error not_a(const char* what) { return bad_message(std::string("the message is no ") + what); }

// ---- parameters

using WireParameters = google::protobuf::Map<std::string, wire::InferParameter>;

InferParameters read_parameters(const WireParameters& from) {
  InferParameters parameters;
  for (const auto& [name, value] : from) {
    switch (value.parameter_choice_case()) {
      case wire::InferParameter::kBoolParam: parameters[name] = value.bool_param(); break;
      case wire::InferParameter::kInt64Param: parameters[name] = value.int64_param(); break;
      case wire::InferParameter::kStringParam: parameters[name] = value.string_param(); break;
      case wire::InferParameter::kDoubleParam: parameters[name] = value.double_param(); break;
      case wire::InferParameter::kUint64Param: parameters[name] = value.uint64_param(); break;
      case wire::InferParameter::PARAMETER_CHOICE_NOT_SET: break;
    }
  }
  return parameters;
}

struct ParameterWriter {
  wire::InferParameter& to;
  void operator()(bool value) const { to.set_bool_param(value); }
  void operator()(std::int64_t value) const { to.set_int64_param(value); }
  void operator()(const std::string& value) const { to.set_string_param(value); }
  void operator()(double value) const { to.set_double_param(value); }
  void operator()(std::uint64_t value) const { to.set_uint64_param(value); }
};

void write_parameters(const InferParameters& from, WireParameters& to) {
  for (const auto& [name, value] : from) std::visit(ParameterWriter{to[name]}, value);
}

// ---- tensors

template <class To, class From>
void append_as(const From& values, std::string& data) {
  data.reserve(data.size() + sizeof(To) * static_cast<std::size_t>(values.size()));
  for (const auto value : values) {
    const To narrowed = static_cast<To>(value);
    data.append(reinterpret_cast<const char*>(&narrowed), sizeof narrowed);
  }
}

void append_length(std::size_t size, std::string& data) {
  const auto length = static_cast<std::uint32_t>(size);
  data.append(reinterpret_cast<const char*>(&length), sizeof length);
}

/// Typed contents as raw bytes.
std::string raw_of(const wire::InferTensorContents& contents, std::string_view datatype) {
  std::string data;
  if (datatype == "BOOL") append_as<std::uint8_t>(contents.bool_contents(), data);
  if (datatype == "INT8") append_as<std::int8_t>(contents.int_contents(), data);
  if (datatype == "INT16") append_as<std::int16_t>(contents.int_contents(), data);
  if (datatype == "INT32") append_as<std::int32_t>(contents.int_contents(), data);
  if (datatype == "INT64") append_as<std::int64_t>(contents.int64_contents(), data);
  if (datatype == "UINT8") append_as<std::uint8_t>(contents.uint_contents(), data);
  if (datatype == "UINT16") append_as<std::uint16_t>(contents.uint_contents(), data);
  if (datatype == "UINT32") append_as<std::uint32_t>(contents.uint_contents(), data);
  if (datatype == "UINT64") append_as<std::uint64_t>(contents.uint64_contents(), data);
  if (datatype == "FP32") append_as<float>(contents.fp32_contents(), data);
  if (datatype == "FP64") append_as<double>(contents.fp64_contents(), data);
  if (datatype == "BYTES") {
    for (const std::string& element : contents.bytes_contents()) {
      append_length(element.size(), data);
      data += element;
    }
  }
  return data;
}

template <class WireTensor>
InferTensor read_tensor(WireTensor& from) {
  return {.name = std::move(*from.mutable_name()),
          .datatype = std::move(*from.mutable_datatype()),
          .shape = {from.shape().begin(), from.shape().end()},
          .parameters = read_parameters(from.parameters())};
}

/// Decodes tensors and their data, wherever it is. `raw` has the data of the tensors that are not
/// in shared memory, in their order.
template <class WireTensors, class Raw>
Result<std::vector<InferTensor>> read_tensors(WireTensors& from, Raw& raw) {
  std::vector<InferTensor> tensors;
  tensors.reserve(static_cast<std::size_t>(from.size()));
  int next_raw = 0;
  for (auto& each : from) {
    InferTensor& tensor = tensors.emplace_back(read_tensor(each));
    if (tensor.parameters.contains("shared_memory_region")) continue;
    if (raw.empty()) {
      tensor.data = raw_of(each.contents(), tensor.datatype);
      continue;
    }
    if (each.has_contents()) {
      return bad_message("unexpected explicit tensor data for tensor '" + tensor.name +
                         "', binary data was already supplied");
    }
    if (next_raw == raw.size()) {
      return bad_message("there are fewer raw contents than tensors: none for '" + tensor.name +
                         "'");
    }
    tensor.data = std::move(raw[next_raw++]);
  }
  if (next_raw != raw.size()) return bad_message("there are more raw contents than tensors");
  return tensors;
}

template <class WireTensor>
void write_tensor(const InferTensor& from, WireTensor& to) {
  to.set_name(from.name);
  to.set_datatype(from.datatype);
  to.mutable_shape()->Add(from.shape.begin(), from.shape.end());
  write_parameters(from.parameters, *to.mutable_parameters());
}

void write_response(const ModelInferResponse& from, wire::ModelInferResponse& to) {
  to.set_model_name(from.model_name);
  to.set_model_version(from.model_version);
  to.set_id(from.id);
  write_parameters(from.parameters, *to.mutable_parameters());
  for (const InferTensor& output : from.outputs) {
    write_tensor(output, *to.add_outputs());
    to.add_raw_output_contents(output.data);
  }
}

Result<ModelInferResponse> read_response(wire::ModelInferResponse& from) {
  auto outputs = read_tensors(*from.mutable_outputs(), *from.mutable_raw_output_contents());
  if (!outputs) return std::move(outputs.error());
  return ModelInferResponse{.model_name = std::move(*from.mutable_model_name()),
                            .model_version = std::move(*from.mutable_model_version()),
                            .id = std::move(*from.mutable_id()),
                            .parameters = read_parameters(from.parameters()),
                            .outputs = std::move(*outputs)};
}

}  // namespace

// ---- decoding

Result<ModelInferRequest> decode_model_infer_request(std::string_view message) {
  wire::ModelInferRequest from;
  if (!parse(message, from)) return not_a("ModelInferRequest");
  auto inputs = read_tensors(*from.mutable_inputs(), *from.mutable_raw_input_contents());
  if (!inputs) return std::move(inputs.error());
  ModelInferRequest request{.model_name = std::move(*from.mutable_model_name()),
                            .model_version = std::move(*from.mutable_model_version()),
                            .id = std::move(*from.mutable_id()),
                            .parameters = read_parameters(from.parameters()),
                            .inputs = std::move(*inputs)};
  for (auto& output : *from.mutable_outputs()) {
    request.outputs.push_back(std::move(*output.mutable_name()));
  }
  return request;
}

Result<ModelInferResponse> decode_model_infer_response(std::string_view message) {
  wire::ModelInferResponse from;
  if (!parse(message, from)) return not_a("ModelInferResponse");
  return read_response(from);
}

Result<ModelStreamInferResponse> decode_model_stream_infer_response(std::string_view message) {
  wire::ModelStreamInferResponse from;
  if (!parse(message, from)) return not_a("ModelStreamInferResponse");
  auto response = read_response(*from.mutable_infer_response());
  if (!response) return std::move(response.error());
  return ModelStreamInferResponse{.error_message = std::move(*from.mutable_error_message()),
                                  .response = std::move(*response)};
}

Result<ModelId> decode_model_id(std::string_view message) {
  wire::ModelReadyRequest from;
  if (!parse(message, from)) return not_a("ModelReadyRequest");
  return ModelId{.name = std::move(*from.mutable_name()),
                 .version = std::move(*from.mutable_version())};
}

Result<std::string> decode_health_check_request(std::string_view message) {
  health::HealthCheckRequest from;
  if (!parse(message, from)) return not_a("HealthCheckRequest");
  return std::move(*from.mutable_service());
}

Result<ServingStatus> decode_health_check_response(std::string_view message) {
  health::HealthCheckResponse from;
  if (!parse(message, from)) return not_a("HealthCheckResponse");
  switch (from.status()) {
    case health::HealthCheckResponse::SERVING: return ServingStatus::serving;
    case health::HealthCheckResponse::NOT_SERVING: return ServingStatus::not_serving;
    case health::HealthCheckResponse::SERVICE_UNKNOWN: return ServingStatus::service_unknown;
    default: return ServingStatus::unknown;
  }
}

Result<bool> decode_readiness(std::string_view message) {
  wire::ServerReadyResponse from;
  if (!parse(message, from)) return not_a("ServerReadyResponse");
  return from.ready();
}

Result<ModelMetadata> decode_model_metadata(std::string_view message) {
  wire::ModelMetadataResponse from;
  if (!parse(message, from)) return not_a("ModelMetadataResponse");
  const auto read = [](auto& tensors) {
    std::vector<InferTensor> all;
    for (auto& each : tensors) {
      all.push_back({.name = std::move(*each.mutable_name()),
                     .datatype = std::move(*each.mutable_datatype()),
                     .shape = {each.shape().begin(), each.shape().end()}});
    }
    return all;
  };
  return ModelMetadata{.name = std::move(*from.mutable_name()),
                       .versions = {from.versions().begin(), from.versions().end()},
                       .platform = std::move(*from.mutable_platform()),
                       .inputs = read(*from.mutable_inputs()),
                       .outputs = read(*from.mutable_outputs())};
}

// ---- encoding

std::string encode(const ModelInferRequest& request) {
  wire::ModelInferRequest to;
  to.set_model_name(request.model_name);
  to.set_model_version(request.model_version);
  to.set_id(request.id);
  write_parameters(request.parameters, *to.mutable_parameters());
  for (const InferTensor& input : request.inputs) {
    write_tensor(input, *to.add_inputs());
    to.add_raw_input_contents(input.data);
  }
  for (const std::string& output : request.outputs) to.add_outputs()->set_name(output);
  return to.SerializeAsString();
}

std::string encode(const ModelInferResponse& response) {
  wire::ModelInferResponse to;
  write_response(response, to);
  return to.SerializeAsString();
}

std::string encode(const ModelStreamInferResponse& response) {
  wire::ModelStreamInferResponse to;
  to.set_error_message(response.error_message);
  write_response(response.response, *to.mutable_infer_response());
  return to.SerializeAsString();
}

std::string encode(const ModelMetadata& metadata) {
  wire::ModelMetadataResponse to;
  to.set_name(metadata.name);
  for (const std::string& version : metadata.versions) to.add_versions(version);
  to.set_platform(metadata.platform);
  const auto write = [](const InferTensor& from, auto& tensor) {
    tensor.set_name(from.name);
    tensor.set_datatype(from.datatype);
    tensor.mutable_shape()->Add(from.shape.begin(), from.shape.end());
  };
  for (const InferTensor& input : metadata.inputs) write(input, *to.add_inputs());
  for (const InferTensor& output : metadata.outputs) write(output, *to.add_outputs());
  return to.SerializeAsString();
}

std::string encode(const ServerMetadata& metadata) {
  wire::ServerMetadataResponse to;
  to.set_name(metadata.name);
  to.set_version(metadata.version);
  for (const std::string& extension : metadata.extensions) to.add_extensions(extension);
  return to.SerializeAsString();
}

std::string encode(const ModelId& model) {
  wire::ModelReadyRequest to;
  to.set_name(model.name);
  to.set_version(model.version);
  return to.SerializeAsString();
}

std::string encode_health_check_request(std::string_view service) {
  health::HealthCheckRequest to;
  to.set_service(std::string(service));
  return to.SerializeAsString();
}

std::string encode(ServingStatus status) {
  health::HealthCheckResponse to;
  to.set_status(static_cast<health::HealthCheckResponse::ServingStatus>(status));
  return to.SerializeAsString();
}

std::string encode_readiness(bool ready) {
  wire::ServerReadyResponse to;
  to.set_ready(ready);
  return to.SerializeAsString();
}

// ---- arithmetic

std::optional<std::uint64_t> elements_of(const std::vector<std::int64_t>& shape) {
  std::uint64_t product = 1;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    const auto factor = static_cast<std::uint64_t>(dimension);
    if (__builtin_mul_overflow(product, factor, &product)) return std::nullopt;
  }
  return product;
}

std::optional<std::uint64_t> element_bytes(std::string_view datatype) {
  constexpr std::pair<std::string_view, std::uint64_t> sizes[] = {
      {"BOOL", 1}, {"UINT8", 1}, {"UINT16", 2}, {"UINT32", 4}, {"UINT64", 8},
      {"INT8", 1}, {"INT16", 2}, {"INT32", 4},  {"INT64", 8},  {"FP16", 2},
      {"BF16", 2}, {"FP32", 4},  {"FP64", 8},   {"BYTES", 0}};
  for (const auto& [name, size] : sizes) {
    if (name == datatype) return size;
  }
  return std::nullopt;
}

std::optional<std::string_view> first_text(const InferTensor& tensor) {
  std::uint32_t length = 0;
  if (tensor.datatype != "BYTES" || tensor.data.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, tensor.data.data(), sizeof length);
  const std::string_view rest = std::string_view(tensor.data).substr(sizeof length);
  if (length > rest.size()) return std::nullopt;
  return rest.substr(0, length);
}

InferTensor text_tensor(std::string name, std::string_view text) {
  InferTensor tensor{.name = std::move(name), .datatype = "BYTES", .shape = {1}};
  append_length(text.size(), tensor.data);
  tensor.data += text;
  return tensor;
}

}  // namespace evenkeel
