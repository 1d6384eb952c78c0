#include "inference/event_reader.h"

#include <algorithm>
#include <utility>

#include "evenkeel/inference/event_editor.h"

namespace evenkeel {
namespace {

/// The code of an error may stand behind its message. Longer data is no error.
constexpr std::size_t max_error = 16 * std::size_t{1024};
/// Enough of an event's data to know whether it is an error.
constexpr std::size_t telling_bytes = 48;

/// Removes `token` and the spaces before it, if the text begins with them.
bool consume(std::string_view& text, std::string_view token) {
  std::string_view rest = text;
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  if (rest.empty() || rest.front() != token.front() || !rest.starts_with(token)) return false;
  text = rest.substr(token.size());
  return true;
}

/// True for `{"error": ...`, unless that is null, and for `{"object": "error"`.
bool is_error_object(std::string_view json) {
  if (!consume(json, "{")) return false;
  if (json.size() > 1 && json[0] == '"' && json[1] != 'e' && json[1] != 'o') return false;  // most
  if (consume(json, R"("error")")) return !(consume(json, ":") && consume(json, "null"));
  return consume(json, R"("object")") && consume(json, ":") && consume(json, R"("error")");
}

/// True if the error says that the request was wrong: `"code": 4xx`, as vLLM and SGLang write it,
/// or `"error_type": "validation"`, as TGI does.
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

void add_output(InferenceResponse& into, std::uint32_t events, Instant now) {
  if (events == 0) return;
  if (into.output_events == 0) {
    into.first_output = now;
  } else {
    into.max_gap = std::max(into.max_gap, now - into.last_output);
  }
  into.output_events += events;
  into.last_output = now;
}

void EventErrors::read_data(std::string_view part) {
  if (skips_) return;
  const bool tells = data_.empty() && part.size() >= telling_bytes;
  if (tells && !names_error_ && !is_error_object(part)) {
    skips_ = true;  // as nearly all
    return;
  }
  data_.append(part.substr(0, max_error + 1 - data_.size()));
  skips_ = data_.size() >= telling_bytes && !names_error_ && !is_error_object(data_);
  if (skips_) data_.clear();
}

void EventErrors::read_field(std::string_view line) {
  std::string_view name = event_field(line, "event");
  if (!name.empty()) names_error_ = consume(name, "error") && name.empty();
}

void EventErrors::end_event() {
  skips_ = false;
  if (data_.empty() && !names_error_) return;
  const bool is_error = std::exchange(names_error_, false) || is_error_object(data_);
  if (is_error && data_.size() <= max_error && !blames_client(data_)) found_ = true;
  data_.clear();
}

EventReader::EventReader(EventSplitter::Framing framing, InferenceResponse& into,
                         const ResponseInterests& interests)
    : into_(into),
      finds_errors_(interests.errors),
      editor_(interests.editor),
      splitter_(framing),
      document_(into, true, interests) {}

void EventReader::wants_output(bool wants) {
  wants_output_ = wants;
  if (splitter_.between_events()) reads_output_ = wants;
}

void EventReader::read(std::string_view bytes, Instant now) {
  if (!wants_output_ && !reads_output_ && !finds_errors_) return splitter_.skip(bytes);
  const char* const piece = bytes.data();
  const char* begin = piece;  // of the event, or of the bytes that continue it
  if (event_bytes_ == 0 && splitter_.take_line_feed(bytes)) {
    begin = bytes.data();
    if (editor_ != nullptr) editor_->end_line();
  }
  std::uint32_t with_output = 0;
  while (true) {
    const EventSplitter::Part part = splitter_.next(bytes);
    switch (part) {
      case EventSplitter::Part::more:
        event_bytes_ += static_cast<std::size_t>(bytes.data() - begin);
        return add_output(into_, with_output, now);
      case EventSplitter::Part::data:
        read_data(splitter_.text(),
                  event_bytes_ + static_cast<std::size_t>(splitter_.text().data() - begin));
        break;
      case EventSplitter::Part::field: read_field(splitter_.text()); break;
      case EventSplitter::Part::event_end:
        if (editor_ != nullptr) {
          editor_->end_event(static_cast<std::size_t>(bytes.data() - piece), document_.places());
        }
        if (end_event()) ++with_output;
        begin = bytes.data();
        event_bytes_ = 0;
    }
  }
}

/// `offset`: from the beginning of the event.
void EventReader::read_data(std::string_view part, std::size_t offset) {
  if (reads_output_) document_.read(part, offset);
  if (finds_errors_) errors_.read_data(part);
}

void EventReader::read_field(std::string_view line) {
  const std::string_view name = event_field(line, "event");
  if (!name.empty()) document_.name_event(name);
  if (finds_errors_) errors_.read_field(line);
}

/// True if the event had output.
bool EventReader::end_event() {
  if (finds_errors_) errors_.end_event();
  const bool has_output = reads_output_ && document_.end();
  reads_output_ = wants_output_;
  return has_output;
}

void EventReader::finish(Instant now) {
  if (!splitter_.between_events()) {
    if (editor_ != nullptr) editor_->end_event(EventPlaces::nowhere, document_.places());
    add_output(into_, end_event() ? 1 : 0, now);
  }
  document_.report();
}

}  // namespace evenkeel
