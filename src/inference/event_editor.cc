#include "evenkeel/inference/event_editor.h"

#include <algorithm>
#include <utility>

namespace evenkeel {
namespace {

constexpr std::string_view model_key = R"("model")";
constexpr std::string_view usage_key = R"("usage")";
constexpr std::string_view fingerprint_key = R"("system_fingerprint")";
constexpr std::string_view white_space = " \t\r\n";

std::size_t skip_space(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(white_space, at), text.size());
}

/// Where the value of a key begins. `size()`: there is none.
std::size_t value_after(std::string_view event, std::size_t key, std::string_view name) {
  if (key >= event.size() || !event.substr(key).starts_with(name)) return event.size();
  const std::size_t colon = skip_space(event, key + name.size());
  return colon < event.size() && event[colon] == ':' ? skip_space(event, colon + 1) : event.size();
}

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The member `"usage":null`, with the comma that separates it; empty: it has another value.
Range null_usage(std::string_view event, std::size_t key) {
  constexpr std::string_view null = "null";
  const std::size_t value = value_after(event, key, usage_key);
  if (!event.substr(value).starts_with(null)) return {};
  Range range{.begin = key, .end = value + null.size()};
  const std::size_t before = event.find_last_not_of(white_space, key - 1);
  if (before != event.npos && event[before] == ',') {
    range.begin = event.find_last_not_of(white_space, before - 1) + 1;
  } else if (const std::size_t after = skip_space(event, range.end);
             after < event.size() && event[after] == ',') {
    range.end = after + 1;
  }
  return range;
}

/// The string at this key, with its quotes; empty: it has another value.
Range string_range(std::string_view event, std::size_t key, std::string_view name) {
  const std::size_t begin = value_after(event, key, name);
  if (begin >= event.size() || event[begin] != '"') return {};
  for (std::size_t at = begin + 1; at < event.size(); ++at) {
    if (event[at] == '"') return {.begin = begin, .end = at + 1};
    if (event[at] == '\\') ++at;
  }
  return {};
}

std::string_view string_at(std::string_view event, std::size_t key, std::string_view name) {
  const Range range = string_range(event, key, name);
  return event.substr(range.begin, range.end - range.begin);
}

}  // namespace

void EventEditor::begin(std::string_view bytes) {
  bytes_ = bytes;
  passed_ = 0;
  has_edited_ = false;
}

void EventEditor::end_event(std::size_t end, const EventPlaces& places) {
  if (!changes(places) && !has_edited_ && held_.empty() && final_.empty()) {
    passed_ = std::min(end, bytes_.size());
    too_long_ = dropped_ = false;
    return;
  }
  edit();
  std::string_view event = bytes_.substr(passed_, end - passed_);
  passed_ += event.size();
  if (!held_.empty()) event = held_.append(event);
  pass_event(event, places);
  held_.clear();
}

void EventEditor::end_line() {
  if (dropped_ || !final_.empty()) edit();
  if (!final_.empty()) final_ += bytes_.front();
  passed_ = 1;
}

std::string_view EventEditor::pass(bool last) {
  const std::string_view rest = bytes_.substr(passed_);
  if (!last && !too_long_) held_ += rest;
  const bool passes_all = last || too_long_ || held_.size() > max_held_;
  if (!passes_all) return has_edited_ ? std::string_view(edited_) : bytes_.substr(0, passed_);
  if (!has_edited_ && held_.empty() && final_.empty()) return bytes_;
  edit();
  pass_final();
  edited_ += held_;
  if (last || too_long_) edited_ += rest;
  held_.clear();
  too_long_ = !last;
  return edited_;
}

/// Collects the bytes for the client from here on.
void EventEditor::edit() {
  if (!std::exchange(has_edited_, true)) edited_.assign(bytes_.substr(0, passed_));
}

void EventEditor::pass_event(std::string_view event, const EventPlaces& places) {
  if (std::exchange(too_long_, false)) {
    dropped_ = false;
    pass_final();
    edited_ += event;
    return;
  }
  dropped_ = edits_.removes_usage && places.is_usage;
  if (dropped_) stamp_final(string_at(event, places.fingerprint, fingerprint_key));
  pass_final();
  if (dropped_) return;
  append_edited(event, places, edits_.removes_usage && places.ends_choice ? final_ : edited_);
}

void EventEditor::append_edited(std::string_view event, const EventPlaces& places,
                                std::string& to) const {
  const bool removes_null = edits_.removes_usage && edits_.removes_null;
  const Range null = removes_null ? null_usage(event, places.usage) : Range();
  const Range model = renames() ? string_range(event, places.model, model_key) : Range();
  std::size_t at = 0;
  const auto replace = [&](const Range& range, std::string_view by) {
    if (range.begin == range.end) return;
    to.append(event.substr(at, range.begin - at)).append(by);
    at = range.end;
  };
  if (null.begin < model.begin) replace(null, {});
  replace(model, edits_.model);
  if (null.begin >= model.begin) replace(null, {});
  to += event.substr(at);
}

/// True if something in the event is changed, or the event may have to wait for the next one.
bool EventEditor::changes(const EventPlaces& places) const {
  if (renames() && places.model != EventPlaces::nowhere) return true;
  return edits_.removes_usage && (places.usage != EventPlaces::nowhere || places.ends_choice);
}

/// Adds the fingerprint to the last event, which has it in a stream without usage.
void EventEditor::stamp_final(std::string_view fingerprint) {
  const std::size_t end = final_.rfind('}');
  if (fingerprint.empty() || end == std::string::npos) return;
  if (final_.find(fingerprint_key) != std::string::npos) return;
  final_.insert(end, std::string(",").append(fingerprint_key).append(":").append(fingerprint));
}

void EventEditor::pass_final() {
  edited_ += final_;
  final_.clear();
}

}  // namespace evenkeel
