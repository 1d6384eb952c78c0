#include "evenkeel/inference/request_reader.h"

#include <algorithm>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/base/path.h"
#include "evenkeel/base/query.h"
#include "evenkeel/http/fields.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/http/media_type.h"
#include "evenkeel/json/text.h"
#include "inference/compressed_request.h"
#include "inference/form_request.h"
#include "inference/json_request.h"
#include "inference/kserve_grpc_request.h"

namespace evenkeel {
namespace {

/// What the head of a request says of it.
struct RequestKind {
  InferenceApi api;
  InferenceTask task;
  bool streams = false;
  std::string_view model = {};  // of a path that names one, as it stands there
  bool takes_forms = false;     // and nothing else
};

/// What follows `place` in the path; nothing: the path does not have it.
std::optional<std::string_view> behind(std::string_view place, std::string_view path) {
  const std::size_t at = path.find(place);
  if (at == std::string_view::npos) return std::nullopt;
  return path.substr(at + place.size());
}

/// Cuts /KEY/VALUE off the end.
std::string_view without_last(std::string_view key, std::string_view path) {
  const std::size_t value = path.rfind('/');
  if (value == std::string_view::npos) return path;
  const std::string_view before = path.substr(0, value);
  return before.ends_with(key) ? before.substr(0, before.size() - key.size()) : path;
}

/// M[/versions/V|/labels/L] of TensorFlow Serving.
std::string_view without_version(std::string_view model) {
  return without_last("/labels", without_last("/versions", model));
}

/// The model, as it stands there, in a path that says what is asked of it whatever the body. Empty
/// if it is no such path.
std::string_view model_before_verb(std::string_view method, std::string_view path) {
  if (const auto loaded = behind("/v2/repository/models/", path)) {
    const std::string_view model = loaded->substr(0, loaded->find('/'));
    const std::string_view verb = loaded->substr(model.size());
    return verb == "/load" || verb == "/unload" ? model : std::string_view();
  }
  const std::size_t colon = path.rfind(':');
  if (method != "POST" || colon == std::string_view::npos) return {};
  const std::string_view verb = path.substr(colon + 1);
  if (verb.empty() || !std::ranges::all_of(verb, is_letter)) return {};
  const auto model = behind("/models/", path.substr(0, colon));
  return model ? without_version(*model) : std::string_view();
}

// [PREFIX]/v2/models/M[/versions/V]/VERB
std::optional<RequestKind> kserve_kind(std::string_view path) {
  const auto rest = behind("/v2/models/", path);
  if (!rest) return std::nullopt;
  path = *rest;
  const std::string_view model = path.substr(0, path.find('/'));
  path.remove_prefix(model.size());
  constexpr std::string_view versions = "/versions/";
  if (path.starts_with(versions)) {
    path.remove_prefix(versions.size());
    path.remove_prefix(std::min(path.find('/'), path.size()));
  }
  if (model.empty()) return std::nullopt;
  if (path == "/infer")
    return RequestKind{InferenceApi::kserve_infer, InferenceTask::infer, false, model};
  const bool streams = path == "/generate_stream";
  if (!streams && path != "/generate") return std::nullopt;
  return RequestKind{InferenceApi::kserve_generate, InferenceTask::completion, streams, model};
}

/// True for [PREFIX]/api/VERB.
bool is_ollama(std::string_view path) {
  constexpr std::string_view directory = "/api";
  return path.substr(0, path.rfind('/')).ends_with(directory);
}

bool has_body_to_read(std::string_view method) {
  return method == "POST" || method == "PUT" || method == "PATCH" || method == "DELETE";
}

std::optional<RequestKind> kind_of(const RequestHead& head) {
  if (!has_body_to_read(head.method)) return std::nullopt;
  if (const auto kserve = kserve_kind(head.path); kserve && !head.is_grpc) return kserve;
  if (const ApiPath* const known = api_path_of(head.path)) {
    if (head.is_grpc != (known->api == InferenceApi::kserve_grpc)) return std::nullopt;
    return RequestKind{known->api, known->task, known->streams, {}, known->takes_forms};
  }
  if (head.is_grpc) return std::nullopt;
  if (const std::string_view model = model_before_verb(head.method, head.path); !model.empty())
    return RequestKind{InferenceApi::path_model, InferenceTask::other, false, model};
  const bool ollama = is_ollama(head.path);
  return RequestKind{ollama ? InferenceApi::ollama_model : InferenceApi::other,
                     InferenceTask::other};
}

std::unique_ptr<RequestReader> text_reader(const RequestHead& head, const RequestKind& kind,
                                           InferenceRequest& into,
                                           const std::vector<std::string>* members) {
  if (kind.takes_forms || kind.api == InferenceApi::other) {
    const std::string boundary = FormRequest::boundary_of(head.content_type);
    if (!boundary.empty()) return std::make_unique<FormRequest>(boundary, into);
    if (kind.takes_forms) return nullptr;
  }
  const std::string_view length = head.inference_header_length;
  if (length.empty()) {
    return std::make_unique<JsonRequest>(kind.api, into, std::nullopt, members);
  }

  const auto json_bytes = parse_number<std::uint64_t>(length);
  if (!json_bytes || *json_bytes == 0) return nullptr;
  return std::make_unique<JsonRequest>(kind.api, into, *json_bytes);
}

}  // namespace

bool is_json_type(std::string_view content_type) {
  const std::string_view type = media_type_of(content_type);
  return type.empty() || type.find("json") != type.npos ||
         equals_ignore_case(type, "application/x-www-form-urlencoded");
}

bool is_read_encoding(std::string_view encoding) {
  return content_coding_of(encoding) != NamedCoding::unknown;
}

RequestHead head_of(const Request& request, std::string_view path) {
  return {.method = request.method,
          .path = path,
          .content_type = {},
          .content_encoding = {},
          .inference_header_length = {},
          .is_grpc = is_grpc(request)};
}

std::optional<InferenceApi> inference_api_of(const RequestHead& head) {
  const auto kind = kind_of(head);
  return kind ? std::optional(kind->api) : std::nullopt;
}

bool needs_body(InferenceApi api) {
  return api != InferenceApi::other && api != InferenceApi::ollama_model &&
         api != InferenceApi::path_model;
}

std::string model_in_path(std::string_view method, std::string_view path) {
  if (const auto kserve = behind("/v2/models/", path))
    return percent_decoded(kserve->substr(0, kserve->find('/')));
  std::string_view model = model_before_verb(method, path);
  for (const std::string_view place : {"/v1/models/", "/v1beta/models/"}) {
    const auto rest = behind(place, path);
    if (!model.empty() || !rest) continue;
    constexpr std::string_view metadata = "/metadata";
    model = *rest;
    if (model.ends_with(metadata)) model.remove_suffix(metadata.size());
    model = without_version(model);
  }
  return percent_decoded(model);
}

std::string model_in_query(std::string_view target) {
  std::string model;
  const bool differ =
      any_parameter(target, [&model](std::string_view name, std::string_view value) {
        if (name != "model" || value == model) return false;
        if (!model.empty()) return true;
        model = value;
        return false;
      });
  if (differ) return {};
  model.resize(json::utf8_prefix(model, InferenceRequest::max_name).size());
  return model;
}

std::unique_ptr<RequestReader> RequestReader::create(const RequestHead& head,
                                                     InferenceRequest& into, WindowShare windows,
                                                     const std::vector<std::string>* members) {
  const auto kind = kind_of(head);
  if (!kind) return nullptr;
  into.task = kind->task;
  into.stream = kind->streams;
  const std::string model = percent_decoded(kind->model);
  into.model = json::utf8_prefix(model, InferenceRequest::max_name);
  if (kind->api == InferenceApi::kserve_grpc) return std::make_unique<KserveGrpcRequest>(into);

  if (kind->api == InferenceApi::path_model) return nullptr;

  auto reader = text_reader(head, *kind, into, members);
  const std::string_view encoding = head.content_encoding;
  if (reader == nullptr || encoding.empty() || equals_ignore_case(encoding, "identity"))
    return reader;
  return std::make_unique<CompressedRequest>(content_coding_of(encoding), windows,
                                             std::move(reader));
}

}  // namespace evenkeel
