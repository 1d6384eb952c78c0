#include "evenkeel/inference/usage_remover.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace evenkeel {
namespace {

constexpr std::string_view usage_key = R"("usage")";
constexpr std::string_view finish_key = R"("finish_reason":")";  // and its value is not null
constexpr std::string_view fingerprint_key = R"("system_fingerprint")";
constexpr std::string_view data_field = "data:";

bool contains(std::string_view text, std::string_view part) {
  // Empty text may have no address, which memmem(3) must be given.
  return !text.empty() && ::memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
}

/// The line behind these lines of an event, if it ends here, is blank: it ends the event.
bool ends_event(std::string_view lines, char line_end) {
  if (line_end == '\n' && lines.ends_with('\r')) lines.remove_suffix(1);
  return lines.empty() || lines.ends_with(line_end);
}

/// Where the last event of these bytes ends: behind its blank line. 0: none ends at `from` or
/// later.
std::size_t end_of_events(std::string_view bytes, std::size_t from, char line_end) {
  for (std::size_t end = bytes.size(); end > from;) {
    const std::size_t at = bytes.rfind(line_end, end - 1);
    if (at == std::string_view::npos || at < from) return 0;
    if (ends_event(bytes.substr(0, at), line_end)) return at + 1;
    end = at;
  }
  return 0;
}

/// The size of the first event, with its blank line; of an incomplete one, all.
std::size_t size_of_event(std::string_view bytes, char line_end) {
  std::size_t at = bytes.find(line_end);
  while (at != std::string_view::npos && !ends_event(bytes.substr(0, at), line_end)) {
    at = bytes.find(line_end, at + 1);
  }
  return at == std::string_view::npos ? bytes.size() : at + 1;
}

/// The members of an object, one after the other.
class Members {
 public:
  explicit Members(std::string_view json) : json_(json) {
    skip_space();
    if (peek() == '{') ++at_;
  }

  std::string_view key;  ///< with its quotes
  std::string_view value;
  std::size_t begin = 0;  ///< of the key
  std::size_t end = 0;    ///< of the value

  /// Goes to the next member; false: there is none.
  bool next() {
    skip_space();
    if (peek() == ',') ++at_;
    skip_space();
    if (peek() != '"') return false;
    begin = at_;
    skip_string();
    key = json_.substr(begin, at_ - begin);
    skip_space();
    if (peek() != ':') return false;
    ++at_;
    skip_space();
    const std::size_t from = at_;
    skip_value();
    end = at_;
    value = json_.substr(from, end - from);
    return end > from;
  }

 private:
  char peek() const { return at_ < json_.size() ? json_[at_] : '\0'; }
  void skip_to(std::size_t at) { at_ = std::min(at, json_.size()); }
  void skip_space() { skip_to(json_.find_first_not_of(" \t\r\n", at_)); }
  void skip_string() {
    for (++at_; at_ < json_.size() && json_[at_] != '"'; ++at_) {
      if (json_[at_] == '\\') ++at_;
    }
    skip_to(at_ + 1);
  }
  void skip_value() {
    if (peek() == '"') return skip_string();
    if (peek() != '{' && peek() != '[') return skip_to(json_.find_first_of(" \t\r\n,}]", at_));
    std::size_t depth = 0;
    do {
      const char byte = peek();
      if (byte == '"') {
        skip_string();
        continue;
      }
      if (byte == '{' || byte == '[') ++depth;
      if (byte == '}' || byte == ']') --depth;
      ++at_;
    } while (depth > 0 && at_ < json_.size());
  }

  std::string_view json_;
  std::size_t at_ = 0;
};

bool is_empty_list(std::string_view value) {
  return value.size() >= 2 && value.front() == '[' && value.back() == ']' &&
         value.find_first_not_of(" \t\r\n", 1) == value.size() - 1;
}

/// The usage of one event.
struct EventUsage {
  std::size_t begin = 0;  ///< of the member, with the comma that separates it
  std::size_t end = 0;
  bool is_null = false;
  bool is_all = false;           ///< it is an object, and the event has no choices
  std::string_view fingerprint;  ///< the value of `system_fingerprint`; empty: none
};

std::optional<EventUsage> find_usage(std::string_view json) {
  std::optional<EventUsage> usage;
  bool no_choices = false;
  bool is_object = false;
  std::string_view fingerprint;
  std::size_t previous = std::string_view::npos;  // the end of the member before
  for (Members each(json); each.next(); previous = each.end) {
    if (each.key == R"("choices")") no_choices = is_empty_list(each.value);
    if (each.key == fingerprint_key) fingerprint = each.value;
    if (each.key != usage_key) continue;
    is_object = each.value.front() == '{';
    usage = EventUsage{.begin = each.begin, .end = each.end, .is_null = each.value == "null"};
    if (previous != std::string_view::npos) {
      usage->begin = previous;
    } else if (const std::size_t comma = json.find_first_not_of(" \t\r\n", each.end);
               comma != std::string_view::npos && json[comma] == ',') {
      usage->end = comma + 1;
    }
  }
  if (!usage) return usage;
  usage->is_all = is_object && no_choices;
  usage->fingerprint = fingerprint;
  return usage;
}

}  // namespace

std::string_view UsageRemover::pass(std::string_view bytes, bool last) {
  edited_.clear();
  const std::size_t known = held_.size();  // in which no event ends
  if (known > 0) bytes = held_.append(bytes);
  if (!knows_line_end_) find_line_end(bytes);
  const char line_end = ends_in_cr_ ? '\r' : '\n';
  const std::size_t whole = last ? bytes.size() : end_of_events(bytes, known, line_end);
  if (known > 0 && whole > 0) bytes = joined_.assign(held_);
  std::string_view events = bytes.substr(0, whole);
  if (known == 0 || whole > 0) held_ = bytes.substr(whole);
  if (too_long_ || !final_.empty() || contains(events, usage_key) || contains(events, finish_key)) {
    while (!events.empty()) {
      const std::size_t size = size_of_event(events, line_end);
      pass_event(events.substr(0, size));
      events.remove_prefix(size);
    }
    if (last) pass_final();
    events = edited_;
  }
  if (held_.size() <= max_event && (!too_long_ || held_.empty())) return events;
  // The beginning of an event that is too long is passed on.
  too_long_ = true;
  if (edited_.empty()) edited_ = events;
  edited_ += held_;
  held_.clear();
  return edited_;
}

/// A stream has one kind of line ends, which the first one shows: LF, with or without CR, or CR.
void UsageRemover::find_line_end(std::string_view bytes) {
  const std::size_t at = bytes.find_first_of("\r\n");
  if (at == std::string_view::npos) return;
  const bool is_cr = bytes[at] == '\r';
  if (is_cr && at + 1 == bytes.size()) return;
  ends_in_cr_ = is_cr && bytes[at + 1] != '\n';
  knows_line_end_ = true;
}

void UsageRemover::pass_event(std::string_view event) {
  const std::size_t data = event.find(data_field);
  if (std::exchange(too_long_, false) || data == std::string_view::npos) {
    pass_final();
    edited_ += event;
    return;
  }
  const std::size_t from = data + data_field.size();
  const auto usage = contains(event, usage_key) ? find_usage(event.substr(from)) : std::nullopt;
  if (usage && usage->is_all) {
    stamp_final(usage->fingerprint);
    return pass_final();
  }
  pass_final();
  std::string& to = contains(event, finish_key) ? final_ : edited_;
  const bool removes = usage && usage->is_null && removes_null_;
  to += event.substr(0, removes ? from + usage->begin : event.size());
  if (removes) to += event.substr(from + usage->end);
}

/// Without usage, it is this event that has the fingerprint.
void UsageRemover::stamp_final(std::string_view fingerprint) {
  const std::size_t end = final_.rfind('}');
  if (fingerprint.empty() || end == std::string::npos || contains(final_, fingerprint_key)) return;
  final_.insert(end, std::string(",").append(fingerprint_key).append(":").append(fingerprint));
}

void UsageRemover::pass_final() {
  edited_ += final_;
  final_.clear();
}

}  // namespace evenkeel
