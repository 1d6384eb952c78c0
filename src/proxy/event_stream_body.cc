#include "proxy/event_stream_body.h"

#include <algorithm>
#include <utility>

namespace evenkeel {
namespace {

constexpr std::string_view event_stream_type = "text/event-stream";
constexpr std::string_view json_lines_type = "application/x-ndjson";

/// Whether the media type of the response is this one, in any case and with any parameters.
bool is_of_type(const Response& response, std::string_view type) {
  const std::string_view value = response.fields.value(FieldId::content_type).value_or("");
  return equals_ignore_case(value.substr(0, type.size()), type) &&
         (value.size() == type.size() || value[type.size()] == ';' || value[type.size()] == ' ');
}

/// No coding, or one that changes nothing.
bool is_plain(const Response& response) {
  const auto coding = response.fields.value(FieldId::content_encoding);
  return !coding || equals_ignore_case(*coding, "identity");
}

/// The code of an error may stand behind its message. A longer line is no error, however it is cut.
constexpr std::size_t max_line = 16 * std::size_t{1024};
/// Enough of a line to know whether it is an error's.
constexpr std::size_t min_telling_line = 48;

/// Removes `token` and the spaces before it, if the text begins with them.
bool consume(std::string_view& text, std::string_view token) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (!text.starts_with(token)) return false;
  text.remove_prefix(token.size());
  return true;
}

/// `{"error": ...`, unless that is null, or `{"object": "error"`.
bool is_error_object(std::string_view json) {
  if (!consume(json, "{")) return false;
  if (consume(json, R"("error")")) return !(consume(json, ":") && consume(json, "null"));
  return consume(json, R"("object")") && consume(json, ":") && consume(json, R"("error")");
}

/// The error says that the request was wrong: `"code": 4xx`, as vLLM and SGLang write it, or
/// `"error_type": "validation"`, as TGI does.
bool blames_client(std::string_view json) {
  constexpr std::string_view type = R"("error_type")";
  if (const std::size_t at = json.find(type); at != std::string_view::npos) {
    std::string_view value = json.substr(at + type.size());
    if (consume(value, ":") && consume(value, R"("validation")")) return true;
  }
  const std::size_t code = json.find(R"("code":)");
  if (code == std::string_view::npos) return false;
  const std::size_t digit = json.find_first_not_of(' ', code + 7);
  return digit != std::string_view::npos && json[digit] == '4';
}

}  // namespace

bool EventStreamBody::applies_to(const Response& response) {
  if (response.status != 200 || response.body == nullptr || response.body->length()) return false;
  if (!is_of_type(response, event_stream_type) && !is_of_type(response, json_lines_type)) {
    return false;
  }
  return is_plain(response);
}

EventStreamBody::EventStreamBody(const Request& request, const Response& response, BodyPtr body,
                                 RequestInfo& info, bool finds_errors)
    : body_(std::move(body)),
      info_(info),
      format_(error_format_of(request.path)),
      lines_(is_of_type(response, json_lines_type)),
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
    if (finds_errors_) find_error(chunk->bytes, chunk->last);
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

/// Looks at the beginning of every line, wherever the chunks are cut.
void EventStreamBody::find_error(std::string_view bytes, bool last) {
  while (!bytes.empty()) {
    const auto [part, whole] = cutter_.cut(bytes);
    if (whole && line_.empty() && !skips_line_) {
      inspect_line(part);
    } else {
      keep_line(part);
      if (whole && !skips_line_) inspect_line(line_);
    }
    if (!whole) break;
    line_.clear();
    skips_line_ = false;
  }
  if (!last) return;
  if (!line_.empty()) inspect_line(line_);
  end_event();
}

/// Keeps the part of a line that a chunk ends with or begins with, as long as it may be an error's.
void EventStreamBody::keep_line(std::string_view part) {
  if (skips_line_) return;
  constexpr std::size_t enough = max_line + 1;  // to know that it is too long
  line_.append(part.substr(0, enough - line_.size()));
  if (line_.size() < min_telling_line || names_error_) return;
  std::string_view json = line_;
  const bool is_data = consume(json, "data:");
  skips_line_ = !(is_data || lines_) || !is_error_object(json);
  if (skips_line_) line_.clear();
}

void EventStreamBody::inspect_line(std::string_view line) {
  const bool too_long = line.size() > max_line;
  if (line.empty()) return end_event();
  if (line.starts_with("event:")) {
    names_error_ = consume(line, "event:") && consume(line, "error") && line.empty();
    return;
  }
  if (!consume(line, "data:") && !lines_) return;
  const bool is_error = std::exchange(names_error_, false) || is_error_object(line);
  if (is_error && !too_long && !blames_client(line)) report_error();
}

/// An error that says nothing more counts too.
void EventStreamBody::end_event() {
  if (std::exchange(names_error_, false)) report_error();
}

void EventStreamBody::report_error() {
  if (!info_.outcome.fault) info_.outcome.fault = Fault::stream_error;
}

void EventStreamBody::remember_end(std::string_view bytes) {
  if (bytes.empty()) return;
  between_events_ =
      lines_ ? bytes.ends_with('\n')
             : bytes.ends_with("\n\n") || bytes.ends_with("\r\n\r\n") || bytes.ends_with("\r\r");
}

}  // namespace evenkeel
