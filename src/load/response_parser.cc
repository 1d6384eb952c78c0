#include "evenkeel/load/response_parser.h"

#include <algorithm>

#include "evenkeel/base/json_scan.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_event_bytes = std::size_t{1} << 20;  // the rest of an event is ignored

bool has_text(std::string_view json, std::string_view key) {
  std::size_t from = 0;
  for (;;) {
    const std::string_view value = find_json_value(json, key, from);
    if (value.empty()) return false;
    if (value.size() > 1 && value[0] == '"' && value[1] != '"') return true;
  }
}

bool is_error(std::string_view json) {
  const std::size_t brace = json.find_first_not_of(" \t");
  if (brace == std::string_view::npos || json[brace] != '{') return false;
  const std::size_t key = json.find_first_not_of(" \t", brace + 1);
  return key != std::string_view::npos && json.substr(key).starts_with("\"error\"");
}

}  // namespace

ResponseUsage parse_usage(std::string_view json) {
  const std::size_t usage = json.rfind("\"usage\"");
  if (usage == std::string_view::npos) return {};
  const std::string_view rest = json.substr(usage);
  return {.completion_tokens = find_json_uint(rest, "\"completion_tokens\""),
          .cached_tokens = find_json_uint(rest, "\"cached_tokens\"")};
}

std::string parse_first_model(std::string_view json) { return find_json_string(json, "\"id\""); }

unsigned StreamParser::feed(std::string_view bytes) {
  unsigned events = 0;
  while (!bytes.empty()) {
    auto [line, whole] = cutter_.cut(bytes);
    if (!whole) {
      line_.append(line.substr(0, max_event_bytes - std::min(max_event_bytes, line_.size())));
      break;
    }
    if (!line_.empty()) {
      line_.append(line);
      line = line_;
    }
    if (take_line(line)) ++events;
    line_.clear();
  }
  return events;
}

bool StreamParser::take_line(std::string_view line) {
  if (line.empty()) return finish_event();
  if (!line.starts_with("data:")) return false;
  line.remove_prefix(5);
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (has_data_) data_ += '\n';
  has_data_ = true;
  data_.append(line.substr(0, max_event_bytes - std::min(max_event_bytes, data_.size())));
  return false;
}

bool StreamParser::finish_event() {
  if (!has_data_) return false;
  const bool text = parse_payload(data_);
  data_.clear();
  has_data_ = false;
  if (text) ++content_events_;
  return text;
}

bool StreamParser::parse_payload(std::string_view payload) {
  if (payload == "[DONE]") {
    done_ = true;
    return false;
  }
  if (is_error(payload)) {
    if (error_.empty()) error_ = payload;
    return false;
  }
  if (const auto usage = parse_usage(payload); usage.completion_tokens) usage_ = usage;
  return has_text(payload, "\"content\"") || has_text(payload, "\"reasoning_content\"") ||
         has_text(payload, "\"reasoning\"") || has_text(payload, "\"text\"") ||
         has_text(payload, "\"arguments\"");
}

}  // namespace evenkeel
