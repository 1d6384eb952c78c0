#include "sim/openai_engine.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <utility>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/inference/grpc_response.h"
#include "sim/http_response.h"
#include "sim/openai_response.h"
#include "sim/tokenizer.h"

namespace evenkeel {
namespace {

constexpr std::int64_t created_at = 1'700'000'000;  // fixed: equal requests have equal responses
constexpr std::size_t embedding_size = 64;

std::vector<float> embedding_of(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> vector(embedding_size);
  double squares = 0;
  for (float& x : vector) {
    x = static_cast<float>(rng.unit() - 0.5);
    squares += static_cast<double>(x) * static_cast<double>(x);
  }
  for (float& x : vector) x = static_cast<float>(static_cast<double>(x) / std::sqrt(squares));
  return vector;
}

std::uint32_t items_of(const std::vector<ChoiceSpec>& plans) {
  return static_cast<std::uint32_t>(plans.size());
}

}  // namespace

Response OpenAiEngine::error(const ApiError& error) const {
  return respond_json(error.status, error_body(error));
}

Response OpenAiEngine::models() const {
  const std::string_view owner = model_.traits().model_owner;
  return respond_json(200, models_body(model_.name(), model_.options().adapters.names,
                                       owner.empty() ? model_.name() : owner, created_at,
                                       model_.runner().max_tokens()));
}

Task<Result<Response>> OpenAiEngine::handle(Request& request, int client_fd) {
  if (auto own = page(request.method, path_of(request.path))) {
    return Result<Response>(std::move(*own));
  }
  if (is_grpc(request)) {
    return Result<Response>(grpc_error_response({GrpcStatus::unimplemented, "unknown service"}));
  }
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (reads && path_of(request.path) == "/v1/models") return Result<Response>(models());
  if (request.method == "POST") return infer(request, client_fd);
  return Result<Response>(error({.status = 404, .message = "Not Found"}));
}

Task<Result<Response>> OpenAiEngine::infer(Request& request, int client_fd) {
  const std::string path(path_of(request.path));
  auto body = co_await read_all(request);
  if (!body) co_return std::move(body.error());
  if (const auto failure = model_.injected_failure()) {
    model_.count_failed();
    co_return error(*failure);
  }
  if (model_.loading()) co_return error({.status = 503, .message = "Loading model"});

  if (path == "/tokenize") co_return tokenize(std::move(*body));
  if (path == "/v1/embeddings") {
    auto response = co_await embed(std::move(*body), client_fd);
    co_return response;
  }
  const bool chat = path == "/v1/chat/completions";
  if (chat || path == "/v1/completions") {
    const OpenAiApi api = chat ? OpenAiApi::chat_completions : OpenAiApi::completions;
    auto response = co_await complete(api, std::move(*body), client_fd);
    co_return response;
  }
  co_return error({.status = 404, .message = "Not Found"});
}

CompletionHead OpenAiEngine::completion_head(OpenAiApi api, std::string_view body) const {
  // The id depends on the body alone, not on x-request-id: the response to a request has the same
  // bytes whatever headers a proxy adds.
  const std::uint64_t high = hash_of(body) ^ model_.options().seed;
  const char* prefix = api == OpenAiApi::chat_completions ? "chatcmpl"
                       : api == OpenAiApi::completions    ? "cmpl"
                                                          : "embd";
  return {.api = api,
          .id = fmt::format("{}-{:016x}{:016x}", prefix, mix(high), mix(high + 1)),
          .created = created_at,
          .model = model_.name(),
          .null_usage = model_.traits().writes_null_usage,
          .fingerprint = model_.traits().fingerprint};
}

/// Plans the choices of all prompts. An error: the model is not this one, or a prompt does not fit.
std::optional<ApiError> OpenAiEngine::plan_all(const OpenAiRequest& request,
                                               const CompletionHead& head,
                                               std::vector<ChoiceSpec>& plans) {
  if (!request.model.empty() && request.model != model_.name() &&
      model_.adapter_named(request.model) == 0) {
    return ApiError{.status = 404,
                    .message = fmt::format("The model `{}` does not exist.", request.model),
                    .param = "model"};
  }
  for (const Prompt& prompt : request.prompts) {
    if (auto refused = model_.plan(request, prompt, head, plans)) return refused;
  }
  return std::nullopt;
}

Task<Result<Response>> OpenAiEngine::complete(OpenAiApi api, std::string body, int client_fd) {
  CompletionHead head = completion_head(api, body);
  auto request = parse_openai_request(api, body);
  if (!request) co_return error({.message = request.error().detail});
  head.usage_follows = request->include_usage;
  if (model_.adapter_named(request->model) != 0) head.model = request->model;
  std::vector<ChoiceSpec> plans;
  const auto refused = plan_all(*request, head, plans);
  if (refused) co_return error(*refused);

  auto answer = model_.start(std::move(plans), request->stream, client_fd);
  const bool wait = !request->stream || model_.sends_head_with_first_token();
  while (wait && !answer->finished() && answer->pending().empty()) {
    co_await answer->progress().wait();
  }
  if (!request->stream) {
    const Usage usage = answer->usage(model_.options().prompt_tokens_details, request->n);
    co_return respond_json(200, completion_body(head, answer->texts(), usage));
  }
  co_return respond_event_stream(std::make_unique<SseBody>(
      std::move(answer), StreamTrailer{.usage = request->include_usage,
                                       .cached_tokens = model_.options().prompt_tokens_details,
                                       .choices_per_prompt = request->n,
                                       .head = head}));
}

Task<Result<Response>> OpenAiEngine::embed(std::string body, int client_fd) {
  const CompletionHead head = completion_head(OpenAiApi::embeddings, body);
  auto request = parse_openai_request(OpenAiApi::embeddings, body);
  if (!request) co_return error({.message = request.error().detail});
  request->n = 1;
  request->stream = false;
  request->max_tokens = 1;
  request->ignore_eos = true;
  std::vector<ChoiceSpec> plans;
  const auto refused = plan_all(*request, head, plans);
  if (refused) co_return error(*refused);
  std::vector<std::vector<float>> vectors;
  for (const ChoiceSpec& each : plans) vectors.push_back(embedding_of(each.word_seed));
  if (model_.options().batches_embeddings && !model_.fits_batch(items_of(plans))) {
    co_return error(
        {.status = 422,
         .message = fmt::format("batch size {} > maximum allowed batch size {}", plans.size(),
                                model_.options().batching.max_batch_size)});
  }
  const auto usage = co_await run_embeddings(std::move(plans), client_fd);
  if (!usage) co_return error({.status = 429, .message = "Model is overloaded"});
  co_return respond_json(
      200, embeddings_body(head, vectors, request->encoding_format == "base64", *usage));
}

/// Returns nothing if the queue of batches is full.
Task<std::optional<Usage>> OpenAiEngine::run_embeddings(std::vector<ChoiceSpec> plans,
                                                        int client_fd) {
  if (model_.options().batches_embeddings) {
    Usage usage;
    for (const ChoiceSpec& each : plans) usage.prompt_tokens += each.prompt_tokens;
    const bool ran = co_await model_.run_batch(items_of(plans), client_fd);
    co_return ran ? std::optional(usage) : std::nullopt;
  }
  auto answer = model_.start(std::move(plans), false, client_fd);
  while (!answer->finished()) {
    co_await answer->progress().wait();
  }
  Usage usage = answer->usage(model_.options().prompt_tokens_details, 1);
  usage.completion_tokens = 0;
  co_return usage;
}

Response OpenAiEngine::tokenize(std::string body) {
  const bool chat = body.find("\"messages\"") != std::string::npos;
  const OpenAiApi api = chat ? OpenAiApi::chat_completions : OpenAiApi::completions;
  auto request = parse_openai_request(api, body);
  if (!request) return error({.message = request.error().detail});
  const auto tokens = tokenize_prompt(request->prompts[0], chat);
  std::string ids;
  for (const TokenId token : tokens)
    ids += fmt::format("{}{}", ids.empty() ? "" : ",", mix(token) % 128'000);
  return respond_json(
      200, fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[{}],"token_strs":null}})",
                       tokens.size(), model_.runner().max_tokens(), ids));
}

}  // namespace evenkeel
