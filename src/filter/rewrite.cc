#include "evenkeel/filter/rewrite.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "evenkeel/filter/inspect.h"
#include "evenkeel/json/writer.h"

namespace evenkeel {
namespace {

std::string quoted(std::string_view text) { return text.empty() ? "" : json_string(text); }

/// Why the name of the model cannot be replaced by `model` where it must be; nothing if it can,
/// need not be, or there is none.
std::optional<Error> obstacle_of(const InferenceInfo& info, std::string_view model) {
  if (!info.places.model_values.empty() || !info.places.names_model) return std::nullopt;
  if (!info.places.is_json && info.request.model == model) return std::nullopt;
  if (info.places.is_json && info.request.complete) return std::nullopt;
  if (info.cut_short) return no_room_for_bodies();
  if (info.places.is_json) {
    return Error{.fault = Fault::body_too_large,
                 .side = Side::client,
                 .detail =
                     "\"model\" is not in the part of the body that is inspected "
                     "(limits.inspected_body), and its name must be replaced"};
  }
  if (info.request.complete && info.request.model.empty()) return std::nullopt;
  return Error{
      .fault = Fault::bad_request,
      .side = Side::client,
      .detail = "the name of the model must be replaced, which needs a body of plain JSON"};
}

}  // namespace

RewriteFilter::RewriteFilter(std::string_view model, bool adds_usage)
    : model_(model), quoted_model_(quoted(model)), adds_usage_(adds_usage) {}

Task<Result<Response>> RewriteFilter::handle(Request& request, Handler& next) {
  if (request.info.inference == nullptr || request.body == nullptr) return next.handle(request);
  InferenceInfo& info = *request.info.inference;
  if (!quoted_model_.empty()) {
    info.served_model = model_;
    if (auto obstacle = obstacle_of(info, model_)) return Result<Response>(std::move(*obstacle));
  }
  auto edits = edits_of(info);
  if (edits.empty()) return next.handle(request);
  return rewrite(request, std::move(edits), next);
}

/// The edits in the order of their places.
std::vector<BodyEdit> RewriteFilter::edits_of(const InferenceInfo& info) const {
  std::vector<BodyEdit> edits;
  const InferenceRequest& asked = info.request;
  const auto begin = info.places.object_begin;
  if (adds_usage_ && asked.complete && asked.stream && begin) {
    edits.push_back({.replaced = {*begin, *begin},
                     .by = R"("stream_options":{"include_usage":true},)",
                     .applies = &info.usage_added});
  }
  if (quoted_model_.empty()) return edits;
  for (const BodyRange& range : info.places.model_values)
    edits.push_back({.replaced = range, .by = quoted_model_});
  return edits;
}

Task<Result<Response>> RewriteFilter::rewrite(Request& request, std::vector<BodyEdit> edits,
                                              Handler& next) {
  InferenceInfo& info = *request.info.inference;
  info.wants_usage =
      std::ranges::any_of(edits, [](const BodyEdit& edit) { return edit.applies != nullptr; });
  auto spliced = std::make_unique<SplicedBody>(std::move(request.body), std::move(edits));
  SplicedBody& body = *spliced;
  request.body = std::move(spliced);
  auto response = co_await next.handle(request);
  if (response) co_return response;
  info.wants_usage = info.usage_added = false;
  info.served_model = {};
  body.rewind();  // if it cannot be, no other pool gets it: see Fallback
  request.body = body.release();
  co_return response;
}

}  // namespace evenkeel
