// What a simulated server says to each request.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <numbers>
#include <utility>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/inference/json.h"
#include "evenkeel/inference/kserve_request.h"
#include "sim/simulated_server.h"
#include "sim/tokenizer.h"

namespace evenkeel {
namespace {

constexpr std::int64_t created_at = 1'700'000'000;  // fixed: the same request has the same answer
constexpr std::uint64_t most_echoed_bytes = 4 << 20;
constexpr std::size_t embedding_size = 64;

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

Response respond(int status, std::string_view content_type, std::string body) {
  Response response;
  response.status = status;
  if (!body.empty()) response.fields.add("content-type", content_type);
  response.fields.add("server", "evenkeel-sim");
  response.body = make_body(std::move(body));
  return response;
}

Response respond_json(int status, std::string body) {
  return respond(status, "application/json", std::move(body));
}

/// All of a request's body; an error when its client leaves in the middle of it.
Task<Result<std::string>> read_all(Request& request) {
  std::string body;
  if (request.body == nullptr) co_return body;
  if (const auto length = request.body->length()) body.reserve(*length);
  while (true) {
    auto chunk = co_await request.body->read();
    if (!chunk) co_return std::move(chunk.error());
    body += chunk->bytes;
    if (chunk->last) co_return body;
  }
}

/// How much the model writes unless it is told: log-normal, about 180 tokens.
std::uint32_t natural_length(std::uint64_t seed) {
  Rng rng(seed);
  const double u = std::max(rng.unit(), 1e-12);
  const double normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * rng.unit());
  return static_cast<std::uint32_t>(
      std::clamp(std::exp(std::log(180.0) + 0.7 * normal), 1.0, 4000.0));
}

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

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// "/v2/models/NAME[/versions/V]/WHAT".
struct KservePath {
  std::string_view model;
  std::string_view what;
};

std::optional<KservePath> kserve_path(std::string_view path) {
  constexpr std::string_view prefix = "/v2/models/";
  if (!path.starts_with(prefix)) return std::nullopt;
  path.remove_prefix(prefix.size());
  // A model's name may hold slashes; the verb is the last segment.
  const std::size_t slash = path.rfind('/');
  KservePath parts{.model = path.substr(0, slash)};
  if (slash != std::string_view::npos) parts.what = path.substr(slash + 1);
  const std::size_t version = parts.model.rfind("/versions/");
  if (version != std::string_view::npos) parts.model = parts.model.substr(0, version);
  return parts;
}

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

Task<Result<Response>> SimulatedServer::route(Request& request, int fd) {
  if (is_grpc(request)) return grpc(request, fd);
  const std::string_view path = path_of(request.path);
  if (path == "/echo" || path.starts_with("/echo/")) return echo(request);
  const bool slow_health = kind_ == EngineKind::sglang && !loading() && request.method == "GET" &&
                           (path == "/health" || path == "/health_generate");
  if (slow_health) return sglang_health();
  if (path == "/metrics/" && kind_ == EngineKind::vllm && request.method == "GET") {
    return Result<Response>(metrics_of(request.path));
  }
  if (auto answer = handle_health(request.method, path))
    return Result<Response>(std::move(*answer));
  if (auto answer = handle_get(request.method, path)) return Result<Response>(std::move(*answer));
  if (request.method != "POST") {
    return Result<Response>(error_response({.status = 404, .message = "Not Found"}));
  }
  return infer(request, fd);
}

std::optional<Response> SimulatedServer::handle_health(std::string_view method,
                                                       std::string_view path) {
  const bool get = method == "GET";
  if (kind_ == EngineKind::triton) {
    const auto model = kserve_path(path);
    const bool model_ready = model && model->what == "ready";
    if (path != "/v2/health/live" && path != "/v2/health/ready" && !model_ready)
      return std::nullopt;
    if (!get) return respond(405, "text/plain", "");
    if (path == "/v2/health/live") return respond(200, "text/plain", "");
    if (loading() || (model_ready && model->model != model_)) {
      return model_ready ? kserve_error_response(400, "Model version not ready")
                         : respond(400, "text/plain", "");
    }
    return respond(200, "text/plain", "");
  }
  const bool ping = path == "/ping" && (kind_ == EngineKind::vllm || kind_ == EngineKind::tgi);
  const bool second_path = path == "/v1/health" && kind_ == EngineKind::llamacpp;
  if (path != "/health" && !ping && !second_path) return std::nullopt;
  if (!get && !(ping && method == "POST") && kind_ == EngineKind::vllm) {
    return respond_json(405, R"({"detail":"Method Not Allowed"})");
  }
  switch (kind_) {
    case EngineKind::tgi:
      if (loading())
        return respond_json(503, R"({"error":"unhealthy","error_type":"healthcheck"})");
      break;
    case EngineKind::llamacpp:
      if (loading()) return error_response({.status = 503, .message = "Loading model"});
      return respond_json(200, R"({"status":"ok"})");
    default:
      if (loading()) return respond(503, "text/plain", "");
  }
  return respond(200, "text/plain", "");
}

Task<Result<Response>> SimulatedServer::sglang_health() {
  // It generates a token and looks for it once a second.
  co_await loop_.sleep_for(
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(1 / options_.speed)));
  co_return respond(200, "text/plain", "");
}

std::optional<Response> SimulatedServer::handle_get(std::string_view method,
                                                    std::string_view path) {
  if (method != "GET" && method != "HEAD") return std::nullopt;
  if (path == "/metrics") return metrics(false);
  if (path == "/dcgm/metrics") return metrics(true);
  if (path == "/v1/models") {
    return respond_json(
        200, models_body(model_, model_owner(kind_, model_), created_at, runner_.max_tokens()));
  }
  const EngineSpec& spec = preset_.engine;
  const Gauges gauges = runner_.gauges();
  const std::string model = json_string(model_);
  switch (kind_) {
    case EngineKind::vllm:
      if (path == "/version") return respond_json(200, R"({"version":"0.32.0+sim"})");
      if (path == "/load") {
        return respond_json(
            200, fmt::format(R"({{"server_load":{}}})", gauges.running + gauges.waiting));
      }
      if (path == "/is_sleeping") return respond_json(200, R"({"is_sleeping":false})");
      break;
    case EngineKind::sglang: {
      if (path == "/model_info" || path == "/get_model_info") {
        return respond_json(200,
                            fmt::format(R"({{"model_path":{0},"is_generation":true}})", model));
      }
      if (path == "/server_info" || path == "/get_server_info") {
        return respond_json(
            200, fmt::format(R"({{"model_path":{},"served_model_name":{},"kv_events":null}})",
                             model, model));
      }
      if (path != "/v1/loads") break;
      const Engine& engine = runner_.engine();  // fresher than the metrics
      const double capacity = static_cast<double>(spec.kv_blocks - 1) * spec.block_tokens;
      return respond_json(
          200,
          fmt::format(
              R"({{"timestamp":{:.3f},"version":"0.5.23+sim","accelerator":{},"num_accelerators":{},)"
              R"("loads":[{{"dp_rank":0,"num_running_reqs":{},"num_waiting_reqs":{},"num_used_tokens":{:.0f},)"
              R"("max_total_num_tokens":{:.0f},"token_usage":{},"max_running_requests":{}}}]}})",
              unix_seconds(), json_string(preset_.gpu), preset_.gpus, engine.running(),
              engine.waiting(), engine.kv_cache_ratio() * capacity, capacity,
              engine.kv_cache_ratio(), spec.max_sequences));
    }
    case EngineKind::llamacpp:
      if (path == "/props") {
        return respond_json(
            200, fmt::format(R"({{"total_slots":{},"model_path":{},"is_sleeping":false}})",
                             spec.max_sequences, model));
      }
      if (path == "/models") {
        return respond_json(
            200, models_body(model_, model_owner(kind_, model_), created_at, runner_.max_tokens()));
      }
      break;
    case EngineKind::tgi:
      if (path == "/info") {
        return respond_json(
            200, fmt::format(R"({{"model_id":{},"max_total_tokens":{},"version":"3.3.6+sim"}})",
                             model, runner_.max_tokens()));
      }
      break;
    case EngineKind::triton: {
      if (path == "/v2") {
        return respond_json(
            200, R"({"name":"triton","version":"2.51.0+sim","extensions":["generate"]})");
      }
      const auto asked = kserve_path(path);
      const bool metadata = path.starts_with("/v2/models/") && path.substr(11) == model_;
      if (metadata || (asked && asked->what == "1" && asked->model == model_)) {
        return respond_json(
            200, fmt::format(R"({{"name":{},"versions":["1"],"platform":"sim"}})", model));
      }
      break;
    }
    case EngineKind::generic: break;
  }
  return std::nullopt;
}

Response SimulatedServer::metrics(bool dcgm) {
  const std::string_view type = kind_ == EngineKind::vllm && !dcgm
                                    ? "text/plain; version=1.0.0; charset=utf-8"
                                    : "text/plain; version=0.0.4; charset=utf-8";
  if (state_.fault == SimFault::stale_metrics) {
    return respond(200, type, dcgm ? stale_dcgm_ : stale_metrics_);
  }
  return respond(200, type, render_metrics(dcgm));
}

/// As prometheus_client's application below /metrics/: all, or what `name[]` names.
Response SimulatedServer::metrics_of(std::string_view target) {
  Response all = metrics(false);
  constexpr std::string_view parameter = "name%5B%5D=";
  std::vector<std::string_view> names;
  for (std::size_t at = 0; (at = target.find(parameter, at)) != target.npos;) {
    at += parameter.size();
    names.push_back(target.substr(at, target.find('&', at) - at));
  }
  if (names.empty()) return all;
  std::string text;
  const std::string whole =
      state_.fault == SimFault::stale_metrics ? stale_metrics_ : render_metrics(false);
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t end = whole.find('\n', at) + 1;
    const std::string_view line = std::string_view(whole).substr(at, end - at);
    if (std::ranges::find(names, line.substr(0, line.find_first_of("{ "))) != names.end()) {
      text += line;
    }
    at = end;
  }
  all.body = make_body(std::move(text));
  return all;
}

std::string SimulatedServer::render_metrics(bool dcgm) {
  Gauges gauges = runner_.gauges();
  gauges.running += batches_.running();
  gauges.waiting += batches_.waiting();
  GpuSnapshot gpu = runner_.gpu();
  const double busy = gpu.utilization_ratio + batches_.busy_ratio(loop_.now());
  gpu.utilization_ratio = std::min(1.0, busy);
  gpu.busy_seconds += batches_.busy_seconds();
  if (state_.fault == SimFault::vram) {
    gpu.memory_ratio = state_.gpu_memory_ratio;
    gauges.kv_cache_ratio = std::max(gauges.kv_cache_ratio, state_.gpu_memory_ratio);
  }
  const EngineSnapshot snapshot{.kind = kind_,
                                .preset = preset_,
                                .model = model_,
                                .gpu_seed = hash_of(options_.name) + options_.seed,
                                .started_unix = runner_.started_unix(),
                                .gauges = gauges,
                                .statistics = runner_.statistics(),
                                .gpu = gpu};
  return dcgm ? dcgm_exposition(snapshot) : exposition(snapshot);
}

Task<Result<Response>> SimulatedServer::control(Request& request) {
  const std::string_view path = path_of(request.path);
  if (path == "/sim/v1/report" && request.method == "GET") co_return respond_json(200, report());
  if (path != "/sim/v1/state")
    co_return respond_json(404, kserve_error_body("no such page of sim control"));
  if (request.method == "PUT" || request.method == "POST") {
    auto body = co_await read_all(request);
    if (!body) co_return std::move(body.error());
    auto changed = change_state(std::move(*body));
    if (!changed) co_return respond_json(400, kserve_error_body(changed.error().detail));
  }
  co_return respond_json(200, state());
}

Task<Result<Response>> SimulatedServer::echo(Request& request) {
  auto body = co_await read_all(request);
  if (!body) co_return std::move(body.error());
  std::string said = fmt::format(R"({{"method":{},"target":{},"authority":{},"fields":[)",
                                 json_string(request.method), json_string(request.path),
                                 json_string(request.authority));
  bool first = true;
  for (const Field& field : request.fields) {
    if (!std::exchange(first, false)) said += ',';
    said += fmt::format("[{},{}]", json_string(field.name()), json_string(field.value()));
  }
  said += fmt::format(R"(],"body_bytes":{},"body_hash":"{:016x}","body_base64":)", body->size(),
                      hash_of(*body));
  said += body->size() <= most_echoed_bytes ? '"' + base64(*body) + '"' : "null";
  said += '}';
  co_return respond_json(200, std::move(said));
}

Task<Result<Response>> SimulatedServer::infer(Request& request, int fd) {
  const std::string path(path_of(request.path));
  auto body = co_await read_all(request);
  if (!body) co_return std::move(body.error());
  if (state_.fault == SimFault::error) {
    ++runner_.statistics().failed;
    co_return path.starts_with("/v2/")
        ? kserve_error_response(state_.error_status, "simulated failure")
        : error_response({.status = state_.error_status, .message = "simulated failure"});
  }
  if (out_of_memory()) {
    ++runner_.statistics().failed;
    co_return path.starts_with("/v2/")
        ? kserve_error_response(500, "CUDA out of memory")
        : error_response({.status = 500, .message = "CUDA out of memory"});
  }
  if (loading()) {
    co_return path.starts_with("/v2/")
        ? kserve_error_response(
              404, fmt::format("Request for unknown model: '{}' has no available versions", model_))
        : error_response({.status = 503, .message = "Loading model"});
  }
  auto response = co_await dispatch(path, std::move(*body), fd);
  co_return response;
}

Task<Result<Response>> SimulatedServer::dispatch(std::string_view path, std::string body, int fd) {
  if (path == "/v1/chat/completions")
    return complete(OpenAiApi::chat_completions, std::move(body), fd);
  if (path == "/v1/completions") return complete(OpenAiApi::completions, std::move(body), fd);
  if (path == "/v1/embeddings") return embed(std::move(body), fd);
  if (path == "/tokenize") return Result<Response>(tokenize(std::move(body)));
  const auto kserve = kserve_path(path);
  if (kserve && (kind_ == EngineKind::triton || kind_ == EngineKind::generic)) {
    if (kserve->model != model_) {
      return Result<Response>(kserve_error_response(
          404, fmt::format("Request for unknown model: '{}' is not found", kserve->model)));
    }
    if (kserve->what == "infer") return kserve_infer(std::move(body), fd);
    if (kserve->what == "generate") return kserve_generate(std::move(body), false, fd);
    if (kserve->what == "generate_stream") return kserve_generate(std::move(body), true, fd);
  }
  return Result<Response>(error_response({.status = 404, .message = "Not Found"}));
}

Response SimulatedServer::error_response(const ApiError& refused) {
  return respond_json(refused.status, error_body(kind_, refused));
}

Response SimulatedServer::kserve_error_response(int status, std::string_view message) {
  return respond_json(status, kserve_error_body(message));
}

std::optional<ApiError> SimulatedServer::check_model(const OpenAiRequest& request) const {
  if (request.model.empty() || request.model == model_) return std::nullopt;
  return ApiError{.status = 404,
                  .message = fmt::format("The model `{}` does not exist.", request.model),
                  .param = "model"};
}

CompletionHead SimulatedServer::completion_head(OpenAiApi api, std::string_view body) const {
  // Of the body alone, not of x-request-id: whatever a proxy adds to a request, its answer has the
  // same bytes.
  const std::uint64_t high = hash_of(body) ^ options_.seed;
  const char* prefix = api == OpenAiApi::chat_completions ? "chatcmpl"
                       : api == OpenAiApi::completions    ? "cmpl"
                                                          : "embd";
  return {.api = api,
          .id = fmt::format("{}-{:016x}{:016x}", prefix, mix(high), mix(high + 1)),
          .created = created_at,
          .model = model_};
}

/// Plans the choices of one prompt; or says why not.
std::optional<ApiError> SimulatedServer::plan(const OpenAiRequest& request, const Prompt& prompt,
                                              const CompletionHead& head,
                                              std::vector<ChoiceSpec>& plans) {
  std::vector<TokenId> tokens = tokenize_prompt(prompt, head.api == OpenAiApi::chat_completions);
  const auto prompt_tokens = static_cast<std::uint32_t>(std::min<std::size_t>(tokens.size(), ~0u));
  const std::uint32_t context = runner_.max_tokens();
  const std::uint64_t asked = request.max_tokens.value_or(0);
  if (prompt_tokens >= context || prompt_tokens + asked > context) {
    return ApiError{
        .message = fmt::format(
            "This model's maximum context length is {} tokens. However, you requested {} output "
            "tokens and your prompt contains {} input tokens, for a total of {} tokens. Please "
            "reduce the length of the input prompt or the number of requested output tokens.",
            context, asked, prompt_tokens, prompt_tokens + asked),
        .param = "input_tokens"};
  }
  const std::uint32_t limit = request.max_tokens.value_or(context - prompt_tokens);
  const std::uint32_t block_tokens = preset_.engine.block_tokens;
  const auto prompt_hash =
      hash_blocks(tokens, static_cast<std::uint32_t>(tokens.size()), request.cache_salt)[0];
  const std::uint64_t seed = mix(prompt_hash ^ hash_of(request.seed)) + options_.seed;

  for (std::uint32_t i = 0; i < request.n; ++i) {
    ChoiceSpec plan{.prompt_tokens = prompt_tokens,
                    .max_tokens = request.max_tokens.value_or(0),
                    .word_seed = mix(seed + i)};
    const std::uint32_t natural = std::max(natural_length(plan.word_seed), request.min_tokens);
    plan.stops_naturally = !request.ignore_eos && natural <= limit;
    plan.output_tokens = plan.stops_naturally ? natural : limit;
    if (request.stream) plan.shape = event_template(head, static_cast<std::uint32_t>(plans.size()));

    std::vector<TokenId> all = tokens;
    std::string written;
    for (std::uint32_t k = 0; k < plan.output_tokens; ++k) {
      if (k > 0) written += ' ';
      written += generated_word(plan.word_seed, k);
    }
    append_tokens(written, all);
    plan.block_hashes = hash_blocks(all, block_tokens, request.cache_salt);
    plans.push_back(std::move(plan));
  }
  return std::nullopt;
}

std::unique_ptr<Completion> SimulatedServer::start(std::vector<ChoiceSpec> plans, bool streams,
                                                   int fd) {
  ++runner_.statistics().requests;
  return std::make_unique<Completion>(loop_, runner_, *this, fd, std::move(plans), streams);
}

Task<Result<Response>> SimulatedServer::complete(OpenAiApi api, std::string body, int fd) {
  const CompletionHead head = completion_head(api, body);
  auto request = parse_openai_request(api, body);
  if (!request) co_return error_response({.message = request.error().detail});
  auto refused = check_model(*request);
  std::vector<ChoiceSpec> plans;
  for (const Prompt& prompt : request->prompts) {
    if (!refused) refused = plan(*request, prompt, head, plans);
  }
  if (refused) co_return error_response(*refused);

  auto answer = start(std::move(plans), request->stream, fd);
  while (!answer->finished() && answer->pending().empty()) {
    auto wake = co_await answer->progress().wait();
    static_cast<void>(wake);
  }
  if (!request->stream) {
    const Usage usage = answer->usage(options_.prompt_tokens_details, request->n);
    co_return respond_json(200, completion_body(head, answer->texts(), usage));
  }
  // The head waits for the first token, as vLLM's does: until then the request may be asked again.
  Response response;
  response.fields.add("content-type", "text/event-stream; charset=utf-8");
  response.fields.add("server", "evenkeel-sim");
  response.body = std::make_unique<SseBody>(
      std::move(answer), StreamTrailer{.usage = request->include_usage,
                                       .cached_tokens = options_.prompt_tokens_details,
                                       .choices_per_prompt = request->n,
                                       .head = head});
  co_return response;
}

Task<Result<Response>> SimulatedServer::embed(std::string body, int fd) {
  const CompletionHead head = completion_head(OpenAiApi::embeddings, body);
  auto request = parse_openai_request(OpenAiApi::embeddings, body);
  if (!request) co_return error_response({.message = request.error().detail});
  request->n = 1;
  request->stream = false;
  request->max_tokens = 1;
  request->ignore_eos = true;
  auto refused = check_model(*request);
  std::vector<ChoiceSpec> plans;
  for (const Prompt& prompt : request->prompts) {
    if (!refused) refused = plan(*request, prompt, head, plans);
  }
  if (refused) co_return error_response(*refused);
  std::vector<std::vector<float>> vectors;
  for (const ChoiceSpec& each : plans) vectors.push_back(embedding_of(each.word_seed));

  auto answer = start(std::move(plans), false, fd);
  while (!answer->finished()) {
    auto wake = co_await answer->progress().wait();
    static_cast<void>(wake);
  }
  Usage usage = answer->usage(options_.prompt_tokens_details, 1);
  usage.completion_tokens = 0;
  co_return respond_json(
      200, embeddings_body(head, vectors, request->encoding_format == "base64", usage));
}

Response SimulatedServer::tokenize(std::string body) {
  const bool chat = body.find("\"messages\"") != std::string::npos;
  const OpenAiApi api = chat ? OpenAiApi::chat_completions : OpenAiApi::completions;
  auto request = parse_openai_request(api, body);
  if (!request) return error_response({.message = request.error().detail});
  const auto tokens = tokenize_prompt(request->prompts[0], chat);
  std::string ids;
  for (const TokenId token : tokens)
    ids += fmt::format("{}{}", ids.empty() ? "" : ",", mix(token) % 128'000);
  return respond_json(
      200, fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[{}],"token_strs":null}})",
                       tokens.size(), runner_.max_tokens(), ids));
}

Task<Result<Response>> SimulatedServer::kserve_infer(std::string body, int fd) {
  auto request = parse_kserve_infer(body);
  if (!request) co_return kserve_error_response(400, request.error().detail);
  const std::uint32_t items = batch_in(request->inputs.front().shape);
  if (!batches_.fits(items)) {
    co_return kserve_error_response(
        400, fmt::format("inference request batch-size must be <= {} for '{}'",
                         options_.batching.max_batch_size, model_));
  }
  const auto failure = co_await run_batched(items, fd);
  if (failure) co_return kserve_error_response(503, failure->message);
  // An identity model: INPUT0 comes back as OUTPUT0.
  std::string outputs;
  for (const KserveTensor& input : request->inputs) {
    std::string name = input.name;
    if (const auto at = name.find("INPUT"); at != std::string::npos) name.replace(at, 5, "OUTPUT");
    outputs += fmt::format(R"({}{{"name":{},"datatype":{},"shape":{},"data":{}}})",
                           outputs.empty() ? "" : ",", json_string(name),
                           json_string(input.datatype), input.shape, input.data);
  }
  const std::string id =
      request->id.empty() ? "" : fmt::format(R"("id":{},)", json_string(request->id));
  co_return respond_json(
      200, fmt::format(R"({{{}"model_name":{},"model_version":"1","outputs":[{}]}})", id,
                       json_string(model_), outputs));
}

Task<Result<Response>> SimulatedServer::kserve_generate(std::string body, bool streams, int fd) {
  auto parsed = parse_kserve_generate(body);
  if (!parsed) co_return kserve_error_response(400, parsed.error().detail);
  OpenAiRequest request{.max_tokens = parsed->max_tokens};
  const Prompt prompt{{.text = parsed->text_input}};
  std::vector<ChoiceSpec> plans;
  const auto refused = plan(request, prompt, {.api = OpenAiApi::completions}, plans);
  if (refused) co_return kserve_error_response(refused->status, refused->message);
  plans[0].shape = kserve_event_template(model_);

  auto answer = start(std::move(plans), streams, fd);
  while (!answer->finished() && answer->pending().empty()) {
    auto wake = co_await answer->progress().wait();
    static_cast<void>(wake);
  }
  if (!streams) {
    co_return respond_json(
        200, fmt::format(R"({{"model_name":{},"model_version":"1","text_output":{}}})",
                         json_string(model_), json_string(answer->texts()[0].text)));
  }
  Response response;
  response.fields.add("content-type", "text/event-stream; charset=utf-8");
  response.fields.add("server", "evenkeel-sim");
  response.body = std::make_unique<SseBody>(std::move(answer), StreamTrailer{.send_done = false});
  co_return response;
}

}  // namespace evenkeel
