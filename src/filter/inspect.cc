#include "evenkeel/filter/inspect.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/base/path.h"
#include "evenkeel/http/client_key.h"
#include "evenkeel/http/media_type.h"
#include "evenkeel/inference/request_reader.h"

namespace evenkeel {
namespace {

constexpr std::string_view kserve_models = "/v2/models/";

/// Adds the facts that decide how a body is read.
void complete_head(RequestHead& head, const Fields& fields) {
  head.content_type = fields.value(FieldId::content_type).value_or("");
  head.content_encoding = fields.value(FieldId::content_encoding).value_or("");
  const std::string_view own_name = fields.value(FieldId::x_body_compressed).value_or("");
  if (head.content_encoding.empty() || is_read_encoding(own_name)) head.content_encoding = own_name;
  if (head.path.find(kserve_models) == head.path.npos) return;
  head.inference_header_length = fields.value("inference-header-content-length").value_or("");
}

/// True if the path or a gRPC message names the model, where it is never replaced.
bool names_model_elsewhere(InferenceApi api) {
  return api == InferenceApi::path_model || api == InferenceApi::kserve_infer ||
         api == InferenceApi::kserve_generate || api == InferenceApi::kserve_grpc;
}

/// True if nothing is known of the API.
bool is_other(InferenceApi api) {
  return api == InferenceApi::other || api == InferenceApi::ollama_model;
}

/// True if a body that is no JSON is malformed.
bool must_be_json(InferenceApi api, std::string_view content_type) {
  if (!is_other(api)) return is_json_type(content_type);
  const std::string_view type = media_type_of(content_type);
  constexpr std::string_view suffix = "+json";
  return equals_ignore_case(type, "application/json") ||
         (type.size() > suffix.size() &&
          equals_ignore_case(type.substr(type.size() - suffix.size()), suffix));
}

std::string model_in_path(const Request& request, std::string_view target) {
  std::string storage;
  const auto path = normalised_path(target, storage);
  return path ? evenkeel::model_in_path(request.method, *path) : std::string();
}

/// The target that backends get; the client's where that is refused later. `rewrites`: null: none.
std::string_view backend_target(const Request& request, const PathRewrites* rewrites,
                                std::string& storage) {
  const PathRewrite* const rewrite =
      rewrites == nullptr ? nullptr : rewrites->find(request.info.identity);
  if (rewrite == nullptr) return request.path;
  auto target = rewrite->target_of(request.path);
  if (!target || target->empty()) return request.path;
  storage = std::move(*target);
  return storage;
}

/// The estimate for all of a body of which only a part was read. Most bytes of one with images are
/// theirs.
std::uint64_t scaled(std::uint64_t tokens, const InferenceRequest& asked, std::uint64_t read,
                     std::optional<std::uint64_t> body_length) {
  if (read == 0 || asked.images > 0 || body_length.value_or(0) <= read) return tokens;
  const double parts = static_cast<double>(*body_length) / static_cast<double>(read);
  return static_cast<std::uint64_t>(static_cast<double>(tokens) * parts);
}

/// How the API calls the most tokens that a request may ask for. Empty: it is none of OpenAI's or
/// Anthropic's for text.
std::string_view max_tokens_name(const ApiPath& path) {
  switch (path.api) {
    case InferenceApi::openai_chat: return "max_completion_tokens";
    case InferenceApi::openai_responses: return "max_output_tokens";
    case InferenceApi::anthropic_messages: return "max_tokens";
    // Not for servers' own APIs, which are read in the same way.
    case InferenceApi::openai_completions:
      return path.path.ends_with("/completions") ? "max_tokens" : "";
    default: return {};
  }
}

JsonPlaces places_of(RequestReader& reader, bool names_model, const ApiPath* path) {
  const auto begin = reader.object_begin();
  const bool takes_stream_options = path != nullptr && path->takes_stream_options;
  return {.is_json = begin.has_value(),
          .names_model = names_model,
          .model_values = reader.take_model_values(),
          .object_begin = reader.has_members() ? begin : std::nullopt,
          .takes_stream_options = takes_stream_options && !reader.stream_options(),
          .members = reader.take_members(),
          .max_tokens_name = path == nullptr ? std::string_view() : max_tokens_name(*path)};
}

/// The counter of a request that is passed on. `last`: the body has ended.
Counter& counter_of(InspectionMetrics& metrics, RequestReader::Decoded decoded, bool last) {
  if (decoded == RequestReader::Decoded::none) return metrics.unread;
  const bool complete = last && decoded == RequestReader::Decoded::all;
  return complete ? metrics.complete : metrics.partial;
}

}  // namespace

/// The body of one request, as far as it was read.
struct InspectFilter::Inspection {
  std::unique_ptr<RequestReader> reader;
  ReplayBody* held = nullptr;  // null: the body of the request can be read again without it
  InferenceApi api = InferenceApi::other;
  bool must_be_json = false;
  const ApiPath* path = nullptr;  // null: nothing is known of it
  std::uint64_t size = 0;
  bool last = false;
  bool is_read = true;
  bool reads_on = false;  // beyond the limit

  bool has_room() const { return held == nullptr || held->holds(); }
  Task<Result<Chunk>> next_chunk(const Request& request) const {
    return held != nullptr ? held->receive() : request.body->read();
  }
};

Task<Result<Response>> InspectFilter::handle(Request& request, Handler& next) {
  const bool readable = request.info.identity.routing.reads_body && request.body != nullptr &&
                        request.upgrade.empty();
  if (!readable || request.info.inference != nullptr) return next.handle(request);
  std::string rewritten;
  const std::string_view target = backend_target(request, rewrites_, rewritten);
  std::string storage;
  auto path = normalised_path(target, storage);
  if (!path) return next.handle(request);
  RequestHead head = head_of(request, *path);
  // Only a server that decodes slashes serves such a path: MLServer does, and to Triton all of
  // `m%2Fversions%2F1` is the name of a model, which it does not have.
  std::string decoded_storage;
  head.path = with_decoded_slashes(*path, decoded_storage);
  const auto decoded_api = head.path.data() != path->data() ? inference_api_of(head) : std::nullopt;
  if (!decoded_api || is_other(*decoded_api)) head.path = *path;
  const auto api = inference_api_of(head);
  if (!api) return next.handle(request);
  return inspect(request, head, *api, next);
}

/// Most bodies are all there: it suspends only for the rest of the others.
Task<Result<Response>> InspectFilter::inspect(Request& request, RequestHead& head, InferenceApi api,
                                              Handler& next) {
  complete_head(head, request.fields);
  request.info.inference = std::make_unique<InferenceInfo>();
  if (options_.reads_usage) request.fields.remove("accept-encoding");
  WindowShare windows{.budget = windows_};
  if (!head.content_encoding.empty()) windows.client = client_key(request.info.identity);
  Inspection inspection{.reader = RequestReader::create(head, request.info.inference->request,
                                                        windows, options_.members),
                        .api = api,
                        .must_be_json = must_be_json(api, head.content_type),
                        .path = api_path_of(head.path)};
  if (inspection.reader == nullptr) {
    metrics_.inspection().unread.add();
    request.info.inference->places.names_model = !names_model_elsewhere(api);
    return next.handle(request);
  }
  if (!request.body->rewindable()) {
    auto body = std::make_unique<ReplayBody>(std::move(request.body), options_.held, held_bodies_,
                                             request.info.identity);
    inspection.held = body.get();
    request.body = std::move(body);
  }
  request.info.inference->body_is_held = true;
  while (wants_more(inspection)) {
    auto next_chunk = inspection.next_chunk(request);
    if (!next_chunk.ready())
      return inspect_rest(request, std::move(inspection), std::move(next_chunk), {}, next);
    auto chunk = next_chunk.take();
    if (!chunk) return std::move(chunk.error());
    if (auto error = read(request, inspection, *chunk)) return std::move(*error);
    auto holding = hold(request, inspection, *chunk);
    if (!holding.ready())
      return inspect_rest(request, std::move(inspection), {}, std::move(holding), next);
    if (auto held = holding.take(); !held) return std::move(held.error());
  }
  end(request, inspection);
  return next.handle(request);
}

Task<Result<Response>> InspectFilter::inspect_rest(Request& request, Inspection inspection,
                                                   Task<Result<Chunk>> next_chunk,
                                                   Task<Result<Done>> holding, Handler& next) {
  while (true) {
    if (next_chunk.valid()) {
      auto chunk = co_await next_chunk;
      if (!chunk) co_return std::move(chunk.error());
      if (auto error = read(request, inspection, *chunk)) co_return std::move(*error);
      holding = hold(request, inspection, *chunk);
    }
    auto held = co_await holding;
    if (!held) co_return std::move(held.error());
    if (!wants_more(inspection)) break;
    next_chunk = inspection.next_chunk(request);
  }
  end(request, inspection);
  co_return co_await next.handle(request);
}

bool InspectFilter::wants_more(const Inspection& inspection) const {
  const bool below_limit = inspection.size < options_.max_body_bytes;
  return inspection.is_read && !inspection.last && (below_limit || inspection.reads_on) &&
         inspection.has_room() && !inspection.reader->done();
}

/// True if what follows can be read, and decides where the request goes.
bool InspectFilter::needs_more(const Request& request, const Inspection& inspection) const {
  return inspection.is_read && !inspection.last && !inspection.reader->done() &&
         placement_.need_more(request);
}

/// The error: the body is malformed.
std::optional<Error> InspectFilter::read(Request& request, Inspection& inspection,
                                         const Chunk& chunk) const {
  const std::uint64_t limit = options_.max_body_bytes;
  const std::string_view first = chunk.bytes.substr(0, limit - std::min(limit, inspection.size));
  const std::string_view rest = chunk.bytes.substr(first.size());
  bool good = read(inspection, first, chunk.last && rest.empty());
  if (good && inspection.size >= limit) {
    inspection.reads_on = needs_more(request, inspection);
    if (inspection.reads_on) good = read(inspection, rest, chunk.last);
  }
  if (good) return std::nullopt;
  const bool is_empty = inspection.size == 0 && is_other(inspection.api);
  if (inspection.must_be_json && !is_empty) {
    metrics_.inspection().malformed.add();
    return inspection.reader->error();
  }
  // It need not be JSON, and says nothing.
  InferenceRequest& asked = request.info.inference->request;
  asked = {.task = asked.task};
  request.info.inference->places.names_model = !is_other(inspection.api);
  inspection.is_read = false;
  return std::nullopt;
}

bool InspectFilter::read(Inspection& inspection, std::string_view bytes, bool last) {
  inspection.size += bytes.size();
  inspection.last = last;
  return inspection.reader->read(bytes) && (!last || inspection.reader->finish());
}

/// Most bodies are short, and say all that is needed at their beginning: only for a long one it
/// matters whether more is to come that is needed. Such a one is held whole, or waits.
Task<Result<Done>> InspectFilter::hold(const Request& request, const Inspection& inspection,
                                       const Chunk& chunk) const {
  ReplayBody* const held = inspection.held;
  if (held == nullptr) return Result<Done>(Done{});
  const bool is_long =
      inspection.reads_on || held->size() + chunk.bytes.size() > ReplayBody::max_small_body;
  if (is_long && needs_more(request, inspection)) return held->hold_all(chunk);
  if (!held->hold(chunk)) held->lend(chunk);
  return Result<Done>(Done{});
}

void InspectFilter::end(Request& request, Inspection& inspection) const {
  InferenceInfo& info = *request.info.inference;
  RequestReader& reader = *inspection.reader;
  const bool has_no_room = !inspection.last && !inspection.has_room() && !reader.done() &&
                           inspection.size < options_.max_body_bytes;
  info.cut_short = (has_no_room && placement_.need_more(request)) || reader.lacks_memory();
  info.rest_unread = !inspection.last && inspection.is_read && !has_no_room && !reader.done();
  if (!inspection.last && inspection.is_read) reader.stop();
  info.request.estimated_prompt_tokens =
      scaled(estimates_.prompt_tokens_of(info.request), info.request, inspection.size,
             request.body->length());
  const auto decoded = inspection.is_read ? reader.decoded() : RequestReader::Decoded::none;
  counter_of(metrics_.inspection(), decoded, inspection.last).add();
  if (inspection.is_read) {
    const bool may_name_model =
        !is_other(inspection.api) || !info.request.model.empty() || reader.object_begin();
    info.places = places_of(reader, may_name_model && !names_model_elsewhere(inspection.api),
                            inspection.path);
  }
  info.is_empty = inspection.size == 0 && inspection.last && is_other(inspection.api);
  if (info.is_empty || info.request.model.empty()) {
    std::string rewritten;
    const std::string_view target = backend_target(request, rewrites_, rewritten);
    if (info.is_empty) info.request.model = model_in_path(request, target);
    if (info.request.model.empty()) info.request.model = model_in_query(target);
  }
  inspection.reader.reset();
  request.body->rewind();
}

}  // namespace evenkeel
