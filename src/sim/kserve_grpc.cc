#include "sim/kserve_grpc.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "evenkeel/http/status.h"
#include "sim/kserve_request.h"
#include "sim/openai_request.h"

namespace evenkeel {
namespace {

constexpr std::string_view inference_service = "/inference.GRPCInferenceService/";
constexpr std::string_view health_check = "/grpc.health.v1.Health/Check";
constexpr std::string_view final_response = "triton_final_response";
constexpr char between_words = '\0';  // occurs in no word

const InferTensor* find_input(const ModelInferRequest& request, std::string_view name) {
  const auto found = std::find_if(request.inputs.begin(), request.inputs.end(),
                                  [name](const InferTensor& each) { return each.name == name; });
  return found == request.inputs.end() ? nullptr : &*found;
}

bool generates_text(const ModelInferRequest& request) {
  return find_input(request, "text_input") != nullptr;
}

template <class T>
std::optional<T> first_of(const InferTensor* tensor, std::string_view datatype) {
  if (tensor == nullptr || tensor->datatype != datatype || tensor->data.size() < sizeof(T)) {
    return std::nullopt;
  }
  T value;
  std::memcpy(&value, tensor->data.data(), sizeof value);
  return value;
}

bool parameter_holds(const ModelInferRequest& request, std::string_view name) {
  const auto found = request.parameters.find(name);
  if (found == request.parameters.end()) return false;
  const bool* value = std::get_if<bool>(&found->second);
  return value != nullptr && *value;
}

/// `max_tokens`, as an input or a parameter: Triton's text models take either.
std::optional<std::uint32_t> max_tokens_of(const ModelInferRequest& request) {
  const InferTensor* input = find_input(request, "max_tokens");
  std::int64_t tokens = first_of<std::int32_t>(input, "INT32").value_or(0);
  if (const auto wide = first_of<std::int64_t>(input, "INT64")) tokens = *wide;
  if (const auto parameter = request.parameters.find("max_tokens");
      parameter != request.parameters.end()) {
    if (const auto* value = std::get_if<std::int64_t>(&parameter->second)) tokens = *value;
  }
  if (tokens <= 0) return std::nullopt;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(tokens, 1'000'000));
}

ModelInferResponse response_to(const ModelInferRequest& request, std::string_view model) {
  return {.model_name = std::string(model), .model_version = "1", .id = request.id};
}

GrpcError invalid(std::string message) {
  return {.status = GrpcStatus::invalid_argument, .message = std::move(message)};
}

std::optional<GrpcError> check_tensor(const InferTensor& tensor) {
  const auto size = element_bytes(tensor.datatype);
  if (!size) {
    return invalid(
        fmt::format("invalid datatype '{}' of input '{}'", tensor.datatype, tensor.name));
  }
  const auto elements = elements_of(tensor.shape);
  if (!elements) return invalid(fmt::format("invalid shape of input '{}'", tensor.name));
  if (*size == 0 || tensor.parameters.contains("shared_memory_region")) return std::nullopt;
  if (*elements * *size == tensor.data.size()) return std::nullopt;
  return invalid(fmt::format("unexpected total byte size {} for input '{}', expecting {}",
                             tensor.data.size(), tensor.name, *elements * *size));
}

/// The batch dimension of a tensor that has others too, else 1.
std::uint32_t batch_of(const InferTensor& tensor) {
  if (tensor.shape.size() < 2) return 1;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(tensor.shape[0], 0, 1 << 30));
}

}  // namespace

Task<Result<Response>> KserveGrpc::handle(Request& request, int client_fd) {
  const bool health = request.path == health_check;
  const bool known = health || request.path.starts_with(inference_service);
  if (!known || request.method != "POST") {
    return Result<Response>(grpc_error_response({GrpcStatus::unimplemented, "unknown service"}));
  }
  if (health) return check_health(request);
  return call(request, client_fd);
}

Task<Result<Response>> KserveGrpc::check_health(Request& request) {
  auto message = co_await read_unary_message(request);
  if (!message) co_return std::move(message.error());
  co_return grpc_unary_response(
      encode(model_.loading() ? ServingStatus::not_serving : ServingStatus::serving));
}

Task<Result<Response>> KserveGrpc::call(Request& request, int client_fd) {
  const std::string method(request.path.substr(inference_service.size()));
  if (method == "ModelStreamInfer") {
    const bool as_grpc_error = request.fields.value("triton_grpc_error") == "true";
    co_return grpc_stream_response(
        model_.loop(), request.body.get(),
        [this, as_grpc_error, client_fd](std::string message, GrpcStreamWriter& writer) {
          return answer(std::move(message), as_grpc_error, writer, client_fd);
        });
  }
  auto message = co_await read_unary_message(request);
  if (!message) co_return std::move(message.error());
  if (method != "ModelInfer") co_return describe(method, *message);
  auto response = co_await model_infer(std::move(*message), client_fd);
  co_return response;
}

/// Readiness and metadata, of the server and of its model.
Response KserveGrpc::describe(std::string_view method, std::string_view message) {
  if (method == "ServerLive") return grpc_unary_response(encode_readiness(true));
  if (method == "ServerReady") return grpc_unary_response(encode_readiness(!model_.loading()));
  if (method == "ServerMetadata") {
    return grpc_unary_response(encode(ServerMetadata{
        .name = "evenkeel-sim", .version = "2", .extensions = {"statistics", "generate"}}));
  }
  const bool of_a_model = method == "ModelReady" || method == "ModelMetadata";
  if (!of_a_model) return grpc_error_response({GrpcStatus::unimplemented, "unknown method"});
  const auto model = decode_model_id(message);
  if (!model) return grpc_error_response(invalid(model.error().detail));
  const auto unavailable = unavailable_model(model->name, model->version);
  if (method == "ModelReady") return grpc_unary_response(encode_readiness(!unavailable));
  if (unavailable) return grpc_error_response(*unavailable);
  const std::int64_t any = -1;
  return grpc_unary_response(encode(
      ModelMetadata{.name = model_.name(),
                    .versions = {"1"},
                    .platform = "sim",
                    .inputs = {{.name = "INPUT0", .datatype = "FP32", .shape = {any, any}}},
                    .outputs = {{.name = "OUTPUT0", .datatype = "FP32", .shape = {any, any}}}}));
}

std::optional<GrpcError> KserveGrpc::unavailable_model(std::string_view name,
                                                       std::string_view version) const {
  if (name != model_.name() || (!version.empty() && version != "1")) {
    return GrpcError{GrpcStatus::not_found,
                     fmt::format("Request for unknown model: '{}' is not found", name)};
  }
  if (!model_.loading()) return std::nullopt;
  return GrpcError{GrpcStatus::unavailable,
                   fmt::format("Request for unknown model: '{}' has no available versions", name)};
}

/// Checks a request and sets `items` to its share of a batch. Nothing: it can be run.
std::optional<GrpcError> KserveGrpc::check(const ModelInferRequest& request,
                                           std::uint32_t& items) const {
  if (auto error = unavailable_model(request.model_name, request.model_version)) return error;
  if (const auto failure = model_.injected_failure()) {
    const bool out_of_memory = model_.state().fault == SimFault::vram;
    return GrpcError{out_of_memory ? GrpcStatus::internal : grpc_status_of_http(failure->status),
                     failure->message};
  }
  if (request.inputs.empty()) {
    return invalid(fmt::format("expected at least one input for model '{}'", model_.name()));
  }
  items = batch_of(request.inputs.front());
  for (const InferTensor& input : request.inputs) {
    if (auto wrong = check_tensor(input)) return wrong;
    if (batch_of(input) != items && !generates_text(request)) {
      return invalid(fmt::format("input '{}' batch size does not match other inputs for '{}'",
                                 input.name, model_.name()));
    }
  }
  if (!model_.fits_batch(items)) {
    return invalid(fmt::format("inference request batch-size must be <= {} for '{}'",
                               model_.options().batching.max_batch_size, model_.name()));
  }
  for (const std::string& wanted : request.outputs) {
    const bool there =
        std::any_of(request.inputs.begin(), request.inputs.end(),
                    [&](const InferTensor& input) { return output_name(input.name) == wanted; });
    if (there || (generates_text(request) && wanted == "text_output")) continue;
    return invalid(
        fmt::format("unexpected inference output '{}' for model '{}'", wanted, model_.name()));
  }
  return std::nullopt;
}

GrpcResult<ChoiceSpec> KserveGrpc::plan_text(const ModelInferRequest& request) {
  const auto text = first_text(*find_input(request, "text_input"));
  if (!text) return invalid("input 'text_input' is not text");
  std::vector<ChoiceSpec> plans;
  const OpenAiRequest wanted{.max_tokens = max_tokens_of(request)};
  const Prompt prompt{{.text = std::string(*text)}};
  if (const auto refused = model_.plan(wanted, prompt, {.api = OpenAiApi::completions}, plans)) {
    return invalid(refused->message);
  }
  return std::move(plans[0]);
}

/// Runs a checked request: generates text where it has a text_input, else echoes its inputs.
Task<GrpcResult<ModelInferResponse>> KserveGrpc::run(ModelInferRequest& request,
                                                     std::uint32_t items, int client_fd) {
  ModelInferResponse response = response_to(request, model_.name());
  if (generates_text(request)) {
    auto planned = plan_text(request);
    if (auto* failure = std::get_if<GrpcError>(&planned)) co_return std::move(*failure);
    std::vector<ChoiceSpec> plans;
    plans.push_back(std::move(std::get<ChoiceSpec>(planned)));
    const auto written = model_.start(std::move(plans), false, client_fd);
    while (!written->finished()) {
      co_await written->progress().wait();
    }
    response.outputs.push_back(text_tensor("text_output", written->texts()[0].text));
    co_return response;
  }
  const bool ran = co_await model_.run_batch(items, client_fd);
  if (!ran) co_return GrpcError{GrpcStatus::unavailable, "Exceeds maximum queue size"};
  for (InferTensor& input : request.inputs) {
    input.name = output_name(std::move(input.name));
    const auto& wanted = request.outputs;
    const bool sent =
        wanted.empty() || std::find(wanted.begin(), wanted.end(), input.name) != wanted.end();
    if (sent) response.outputs.push_back(std::move(input));
  }
  co_return response;
}

Task<Result<Response>> KserveGrpc::model_infer(std::string message, int client_fd) {
  auto request = decode_model_infer_request(message);
  if (!request) co_return grpc_error_response(invalid(request.error().detail));
  std::uint32_t items = 1;
  if (const auto failure = check(*request, items)) {
    model_.count_failed();
    co_return grpc_error_response(*failure);
  }
  if (first_of<bool>(find_input(*request, "stream"), "BOOL").value_or(false)) {
    co_return grpc_error_response(
        {GrpcStatus::unimplemented,
         "ModelInfer RPC doesn't support models with decoupled transaction "
         "policy"});
  }
  auto outcome = co_await run(*request, items, client_fd);
  if (const auto* failure = std::get_if<GrpcError>(&outcome))
    co_return grpc_error_response(*failure);
  co_return grpc_unary_response(encode(std::get<ModelInferResponse>(outcome)));
}

// ---- streams

Task<void> KserveGrpc::answer(std::string message, bool as_grpc_error, GrpcStreamWriter& writer,
                              int client_fd) {
  auto request = decode_model_infer_request(message);
  if (!request) {
    writer.fail(invalid(request.error().detail));
    co_return;
  }
  std::uint32_t items = 1;
  auto failure = check(*request, items);
  if (!failure && generates_text(*request)) {
    auto planned = plan_text(*request);
    if (auto* wrong = std::get_if<GrpcError>(&planned)) failure = std::move(*wrong);
    if (!failure) {
      co_await stream_text(*request, std::move(std::get<ChoiceSpec>(planned)), writer, client_fd);
      co_return;
    }
  }
  ModelStreamInferResponse reply{.response = response_to(*request, model_.name())};
  if (!failure) {
    auto outcome = co_await run(*request, items, client_fd);
    if (auto* wrong = std::get_if<GrpcError>(&outcome)) failure = std::move(*wrong);
    if (!failure) reply.response = std::move(std::get<ModelInferResponse>(outcome));
  }
  if (failure) {
    model_.count_failed();
    if (as_grpc_error) {
      writer.fail(std::move(*failure));
      co_return;
    }
    reply.error_message = std::move(failure->message);
  }
  reply.response.parameters.emplace(final_response, true);
  writer.write(encode(reply));
}

/// Answers as a decoupled model: one response per token; the last one, or an empty one after it,
/// is marked as final.
Task<void> KserveGrpc::stream_text(const ModelInferRequest& request, ChoiceSpec plan,
                                   GrpcStreamWriter& writer, int client_fd) {
  const bool empty_last = parameter_holds(request, "triton_enable_empty_final_response");
  const std::string mark(1, between_words);
  plan.shape = {.after = mark, .after_stop = mark, .after_length = mark};
  std::vector<ChoiceSpec> plans;
  plans.push_back(std::move(plan));
  const auto written = model_.start(std::move(plans), true, client_fd);
  while (true) {
    while (written->pending().empty()) {
      co_await written->progress().wait();
    }
    const std::string words = std::exchange(written->pending(), {});
    const bool finished = written->finished();
    std::string_view rest = words;
    while (!rest.empty()) {
      const std::size_t end = rest.find(between_words);
      ModelStreamInferResponse reply{.response = response_to(request, model_.name())};
      reply.response.outputs.push_back(text_tensor("text_output", rest.substr(0, end)));
      rest.remove_prefix(end + 1);
      reply.response.parameters.emplace(final_response, finished && rest.empty() && !empty_last);
      writer.write(encode(reply));
    }
    if (finished) break;
  }
  if (!empty_last) co_return;
  ModelStreamInferResponse reply{.response = response_to(request, model_.name())};
  reply.response.parameters.emplace(final_response, true);
  writer.write(encode(reply));
}

}  // namespace evenkeel
