#include "evenkeel/filter/observe.h"

#include <utility>

#include "evenkeel/filter/stream_body.h"
#include "evenkeel/json/writer.h"
#include "filter/stream_observer.h"

namespace evenkeel {

namespace {

/// What the client is not to see: usage that evenkeel asked for, and another name of the model.
EventEdits edits_of(const InferenceInfo& info, ResponseFormat format) {
  EventEdits edits{.removes_usage = info.usage_added && format == ResponseFormat::events,
                   .removes_null = !info.keeps_null_usage};
  const std::string& model = info.request.model;
  const bool is_whole = !model.empty() && model.size() < InferenceRequest::max_name;
  const bool is_renamed = !info.served_model.empty() && info.served_model != model;
  if (is_renamed && is_whole && format != ResponseFormat::grpc_stream)
    edits.model = json_string(model);
  return edits;
}

}  // namespace

Task<Result<Response>> ObserveFilter::handle(Request& request, Handler& next) {
  if (request.info.inference == nullptr) return next.handle(request);
  return observe(request, next);
}

Task<Result<Response>> ObserveFilter::observe(Request& request, Handler& next) {
  auto response = co_await next.handle(request);
  if (!response || std::exchange(request.info.inference->is_observed, true)) co_return response;
  const bool is_read = response->status == 200 && response->body != nullptr;
  const auto format = is_read ? response_format_of(request, *response) : std::nullopt;
  if (!format) {
    if (const auto& listener = request.info.inference->listener) listener->on_unread();
    co_return response;
  }
  RequestInfo& info = request.info;
  const std::uint32_t model = models_.index_of(info.inference->request.model);
  ModelMetrics& metrics = worker_metrics_.model(info.identity.pool_index, model);
  auto* stream = dynamic_cast<StreamBody*>(response->body.get());
  if (stream == nullptr) {
    auto body = std::make_unique<StreamBody>(loop_, std::move(response->body), *format, info);
    stream = body.get();
    response->body = std::move(body);
  }
  stream->set_observer(
      std::make_unique<StreamObserver>(info, metrics, worker_metrics_, estimates_));
  EventEdits edits = edits_of(*info.inference, *format);
  if (edits.removes_usage || !edits.model.empty()) stream->edit(std::move(edits));
  co_return response;
}

}  // namespace evenkeel
