#include "sim/kserve_http.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <utility>
#include <vector>

#include "evenkeel/json/writer.h"
#include "sim/http_response.h"
#include "sim/kserve_request.h"
#include "sim/openai_response.h"

namespace evenkeel {
namespace {

/// The batch dimension of a shape in JSON, where there is one before others.
std::uint32_t batch_in(std::string_view shape) {
  const std::size_t comma = shape.find(',');
  const std::size_t digit = shape.find_first_of("0123456789");
  if (comma == std::string_view::npos || digit > comma) return 1;
  std::uint32_t items = 1;
  std::from_chars(shape.data() + digit, shape.data() + comma, items);
  return items;
}

}  // namespace

std::optional<KservePath> parse_kserve_path(std::string_view path) {
  constexpr std::string_view prefix = "/v2/models/";
  if (!path.starts_with(prefix)) return std::nullopt;
  path.remove_prefix(prefix.size());
  // A model's name may hold slashes; the verb is the last segment.
  const std::size_t slash = path.rfind('/');
  KservePath parts{.model = path.substr(0, slash)};
  if (slash != std::string_view::npos) parts.verb = path.substr(slash + 1);
  const std::size_t version = parts.model.rfind("/versions/");
  if (version != std::string_view::npos) parts.model = parts.model.substr(0, version);
  return parts;
}

Response KserveHttp::error(int status, std::string_view message) {
  return respond_json(status, error_object(message));
}

bool KserveHttp::handles(const Request& request) {
  if (request.method != "POST") return false;
  const auto path = parse_kserve_path(path_of(request.path));
  return path &&
         (path->verb == "infer" || path->verb == "generate" || path->verb == "generate_stream");
}

Task<Result<Response>> KserveHttp::handle(Request& request, int client_fd) {
  const std::string path(path_of(request.path));
  auto body = co_await read_all(request);
  if (!body) co_return std::move(body.error());
  if (const auto failure = model_.injected_failure()) {
    model_.count_failed();
    co_return error(failure->status, failure->message);
  }
  if (model_.loading()) {
    co_return error(404, fmt::format("Request for unknown model: '{}' has no available versions",
                                     model_.name()));
  }
  const auto parts = parse_kserve_path(path);
  if (parts->model != model_.name()) {
    co_return error(404, fmt::format("Request for unknown model: '{}' is not found", parts->model));
  }
  if (parts->verb == "infer") {
    auto response = co_await infer(std::move(*body), client_fd);
    co_return response;
  }
  auto response = co_await generate(std::move(*body), parts->verb == "generate_stream", client_fd);
  co_return response;
}

Task<Result<Response>> KserveHttp::infer(std::string body, int client_fd) {
  auto request = parse_kserve_infer(body);
  if (!request) co_return error(400, request.error().detail);
  const std::uint32_t items = batch_in(request->inputs.front().shape);
  if (!model_.fits_batch(items)) {
    co_return error(400, fmt::format("inference request batch-size must be <= {} for '{}'",
                                     model_.options().batching.max_batch_size, model_.name()));
  }
  const bool ran = co_await model_.run_batch(items, client_fd);
  if (!ran) co_return error(503, "Exceeds maximum queue size");
  std::string outputs;
  for (const KserveTensor& input : request->inputs) {
    const std::string name = output_name(input.name);
    outputs += fmt::format(R"({}{{"name":{},"datatype":{},"shape":{},"data":{}}})",
                           outputs.empty() ? "" : ",", json_string(name),
                           json_string(input.datatype), input.shape, input.data);
  }
  const std::string id =
      request->id.empty() ? "" : fmt::format(R"("id":{},)", json_string(request->id));
  co_return respond_json(
      200, fmt::format(R"({{{}"model_name":{},"model_version":"1","outputs":[{}]}})", id,
                       json_string(model_.name()), outputs));
}

Task<Result<Response>> KserveHttp::generate(std::string body, bool streams, int client_fd) {
  auto parsed = parse_kserve_generate(body);
  if (!parsed) co_return error(400, parsed.error().detail);
  OpenAiRequest request{.max_tokens = parsed->max_tokens};
  const Prompt prompt{{.text = parsed->text_input}};
  std::vector<ChoiceSpec> plans;
  const auto refused = model_.plan(request, prompt, {.api = OpenAiApi::completions}, plans);
  if (refused) co_return error(refused->status, refused->message);
  plans[0].shape = kserve_event_template(model_.name());

  auto answer = model_.start(std::move(plans), streams, client_fd);
  const bool wait = !streams || model_.sends_head_with_first_token();
  while (wait && !answer->finished() && answer->pending().empty()) {
    co_await answer->progress().wait();
  }
  if (!streams) {
    co_return respond_json(
        200, fmt::format(R"({{"model_name":{},"model_version":"1","text_output":{}}})",
                         json_string(model_.name()), json_string(answer->texts()[0].text)));
  }
  co_return respond_event_stream(
      std::make_unique<SseBody>(std::move(answer), StreamTrailer{.send_done = false}));
}

}  // namespace evenkeel
