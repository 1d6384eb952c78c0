#include "evenkeel/filter/inspect.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/http/grpc.h"
#include "evenkeel/http/path.h"
#include "evenkeel/inference/request_reader.h"

namespace evenkeel {
namespace {

/// What decides whether a body is read. `path` is normalised.
RequestHead head_of(const Request& request, std::string_view path) {
  return {.method = request.method,
          .path = path,
          .content_type = {},
          .content_encoding = {},
          .inference_header_length = {},
          .is_grpc = is_grpc(request)};
}

/// What decides how it is read.
void complete_head(RequestHead& head, const Fields& fields) {
  head.content_type = fields.value(FieldId::content_type).value_or("");
  head.content_encoding = fields.value(FieldId::content_encoding).value_or("");
  // SGLang's own name for it.
  const std::string_view for_sglang = fields.value(FieldId::x_body_compressed).value_or("");
  if (head.content_encoding.empty() || is_read_encoding(for_sglang))
    head.content_encoding = for_sglang;
  if (!head.path.starts_with("/v2/models/")) return;
  head.inference_header_length = fields.value("inference-header-content-length").value_or("");
}

/// OpenAI's, which alone have `stream_options`.
bool takes_stream_options(std::string_view path) {
  return path == "/v1/chat/completions" || path == "/v1/completions";
}

/// The estimate for all of a body of which only a part was read. Most bytes of one with images are
/// theirs.
std::uint64_t scaled(std::uint64_t tokens, const InferenceRequest& asked, std::uint64_t read,
                     std::optional<std::uint64_t> body_length) {
  if (read == 0 || asked.images > 0 || body_length.value_or(0) <= read) return tokens;
  const double parts = static_cast<double>(*body_length) / static_cast<double>(read);
  return static_cast<std::uint64_t>(static_cast<double>(tokens) * parts);
}

JsonPlaces places_of(RequestReader& reader, const RequestHead& head) {
  const bool is_kserve = head.is_grpc || head.path.starts_with("/v2/models/");
  JsonPlaces places{.is_json = reader.object_begin().has_value(),
                    .names_model = !is_kserve,
                    .model_values = reader.take_model_values(),
                    .object_begin = {}};
  if (takes_stream_options(head.path) && !reader.stream_options()) {
    places.object_begin = reader.object_begin();
  }
  return places;
}

/// For a request that is passed on. `last`: the body has ended.
Counter& counter_of(InspectionMetrics& metrics, RequestReader::Decoded decoded, bool last) {
  if (decoded == RequestReader::Decoded::none) return metrics.unread;
  const bool complete = last && decoded == RequestReader::Decoded::all;
  return complete ? metrics.complete : metrics.partial;
}

}  // namespace

Error no_room_for_bodies() {
  return {.fault = Fault::out_of_memory,
          .detail =
              "too little memory is free for the bodies of requests (limits.held_bodies, or 64 MiB "
              "for windows of zstd)"};
}

Task<Result<Response>> InspectFilter::handle(Request& request, Handler& next) {
  const bool readable = request.body != nullptr && request.upgrade.empty();
  if (!readable || request.info.inference != nullptr) return next.handle(request);
  std::string storage;
  auto path = normalised_path(request.path, storage);
  if (!path) return next.handle(request);
  // Only a server that decodes slashes serves such a path: MLServer does, and to Triton all of
  // `m%2Fversions%2F1` is the name of a model, which it does not have.
  std::string decoded_storage;
  const std::string_view decoded = with_decoded_slashes(*path, decoded_storage);
  if (decoded.data() != path->data() && inference_api_of(head_of(request, decoded)))
    return inspect(request, std::move(decoded_storage), next);
  if (!inference_api_of(head_of(request, *path))) return next.handle(request);
  return inspect(request, std::move(storage), next);
}

/// `path`: normalised; empty if the request's own is.
Task<Result<Response>> InspectFilter::inspect(Request& request, std::string path, Handler& next) {
  RequestHead head =
      head_of(request, path.empty() ? request.path.substr(0, request.path.find('?')) : path);
  complete_head(head, request.fields);
  request.info.inference = std::make_unique<InferenceInfo>();
  InferenceInfo& info = *request.info.inference;
  InspectionMetrics& metrics = metrics_.inspection();
  auto reader = RequestReader::create(head, info.request, windows_);
  if (reader == nullptr) {
    metrics.unread.add();
    co_return co_await next.handle(request);
  }
  ReplayBody* held = nullptr;
  if (!request.body->rewindable()) {
    auto body = std::make_unique<ReplayBody>(std::move(request.body), options_.held,
                                             metrics_.replay(), pressure_);
    held = body.get();
    request.body = std::move(body);
  }
  info.body_is_held = true;
  std::uint64_t size = 0;
  bool last = false;
  bool is_read = true;
  const auto has_room = [held] { return held == nullptr || held->holds(); };
  while (!last && size < options_.max_body_bytes && has_room() && !reader->done()) {
    // Not within the conditional expression: g++ 12 then destroys an error twice.
    auto next_chunk = held != nullptr ? held->hold() : request.body->read();
    auto chunk = co_await next_chunk;
    if (!chunk) co_return std::move(chunk.error());
    const std::string_view inspected = chunk->bytes.substr(0, options_.max_body_bytes - size);
    size += inspected.size();
    last = chunk->last && inspected.size() == chunk->bytes.size();
    if (reader->read(inspected) && (!last || reader->finish())) continue;
    if (is_json_type(head.content_type)) {
      metrics.malformed.add();
      co_return reader->error();
    }
    // It need not be JSON, and says nothing.
    info.request = {.task = info.request.task};
    is_read = false;
    break;
  }
  const bool has_no_room =
      !last && !has_room() && !reader->done() && size < options_.max_body_bytes;
  info.cut_short = has_no_room || reader->lacks_memory();
  if (!last && is_read) reader->stop();
  info.request.estimated_prompt_tokens =
      scaled(estimates_.prompt_tokens_of(info.request), info.request, size, request.body->length());
  counter_of(metrics, is_read ? reader->decoded() : RequestReader::Decoded::none, last).add();
  if (is_read) info.places = places_of(*reader, head);
  reader.reset();
  request.body->rewind();
  co_return co_await next.handle(request);
}

}  // namespace evenkeel
