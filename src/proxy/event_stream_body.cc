#include "proxy/event_stream_body.h"

#include <utility>

namespace evenkeel {
namespace {

constexpr std::string_view event_stream_type = "text/event-stream";
constexpr std::string_view json_lines_type = "application/x-ndjson";

std::string_view content_type_of(const Response& response) {
  return response.fields.value(FieldId::content_type).value_or("");
}

bool begins_error_event(std::string_view event, bool lines) {
  if (lines) return event.starts_with(R"({"error")");
  return event.starts_with(R"(data: {"error")") || event.starts_with(R"(data:{"error")") ||
         event.starts_with("event: error");
}

/// The event says that the request was wrong: `"code": 4xx`, as vLLM and SGLang write it.
bool blames_client(std::string_view event) {
  event = event.substr(0, event.find("\n\n"));
  const std::size_t code = event.find(R"("code":)");
  if (code == std::string_view::npos) return false;
  const std::size_t digit = event.find_first_not_of(' ', code + 7);
  return digit != std::string_view::npos && event[digit] == '4';
}

/// Where an error event begins in the chunk that ends a stream with `[DONE]`; npos: nowhere.
std::size_t event_before_done(std::string_view bytes) {
  if (!bytes.ends_with("[DONE]\n\n")) return std::string_view::npos;
  const std::size_t event = bytes.find("\n\ndata: {\"error\"");
  return event == std::string_view::npos ? event : event + 2;
}

/// Where the last of several lines begins; npos: there is one at most.
std::size_t last_line(std::string_view bytes) {
  if (bytes.ends_with('\n')) bytes.remove_suffix(1);
  const std::size_t end = bytes.rfind('\n');
  return end == std::string_view::npos ? end : end + 1;
}

}  // namespace

bool EventStreamBody::applies_to(const Response& response) {
  if (response.status != 200 || response.body == nullptr || response.body->length()) return false;
  const std::string_view type = content_type_of(response);
  if (!type.starts_with(event_stream_type) && !type.starts_with(json_lines_type)) return false;
  return !response.fields.value("content-encoding");
}

EventStreamBody::EventStreamBody(const Request& request, const Response& response, BodyPtr body,
                                 RequestInfo& info, bool finds_errors)
    : body_(std::move(body)),
      info_(info),
      format_(error_format_of(request.path)),
      lines_(content_type_of(response).starts_with(json_lines_type)),
      finds_errors_(finds_errors) {}

Task<Result<Chunk>> EventStreamBody::read() {
  if (broken_) return Result<Chunk>(std::move(*broken_));
  auto next = body_->read();
  const bool first = !std::exchange(begun_, true);
  if (!next.ready()) return wait(std::move(next));
  auto chunk = next.take();
  if (first && !chunk) return chunk;  // the head is not written yet: it can still be an error's
  return check(std::move(chunk));
}

Task<Result<Chunk>> EventStreamBody::wait(Task<Result<Chunk>> next) {
  auto chunk = co_await next;
  co_return check(std::move(chunk));
}

Result<Chunk> EventStreamBody::check(Result<Chunk> chunk) {
  if (chunk) {
    if (finds_errors_) find_error(chunk->bytes);
    remember_end(chunk->bytes);
    return chunk;
  }
  if (chunk.error().side == Side::client) return chunk;
  // Half an event is ended, so that the error is one of its own.
  if (!between_events_) event_ = lines_ ? "\n" : "\n\n";
  event_ += lines_ ? error_line(chunk.error()) : error_event(chunk.error(), format_);
  broken_ = std::move(chunk.error());
  return Chunk{.bytes = event_};
}

/// Looks where an event begins with a chunk, and into the chunk that ends the stream, to which
/// servers add their error.
void EventStreamBody::find_error(std::string_view bytes) {
  if (!between_events_ || !begins_error_event(bytes, lines_)) {
    const std::size_t event = lines_ ? last_line(bytes) : event_before_done(bytes);
    if (event == std::string_view::npos) return;
    bytes.remove_prefix(event);
    if (!begins_error_event(bytes, lines_)) return;
  }
  if (!blames_client(bytes) && !info_.outcome.fault) info_.outcome.fault = Fault::stream_error;
}

void EventStreamBody::remember_end(std::string_view bytes) {
  if (bytes.empty()) return;
  between_events_ =
      lines_ ? bytes.ends_with('\n') : bytes.ends_with("\n\n") || bytes.ends_with("\r\n\r\n");
}

}  // namespace evenkeel
