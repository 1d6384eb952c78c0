#include "evenkeel/load/response_parser.h"

#include "evenkeel/base/ascii.h"
#include "evenkeel/json/value.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_error_bytes = 4096;

bool is_error(std::string_view json) {
  return json.starts_with('{') && trimmed(json.substr(1), " ").starts_with("\"error\"");
}

ResponseUsage usage_of(const InferenceResponse& response) {
  return {.completion_tokens = response.completion_tokens, .cached_tokens = response.cached_tokens};
}

}  // namespace

ResponseUsage parse_usage(std::string_view json) {
  InferenceResponse response;
  const auto reader = ResponseReader::create(ResponseFormat::json, response);
  reader->read(json, Instant{});
  reader->finish(Instant{});
  return usage_of(response);
}

std::string parse_first_model(std::string_view json) {
  const auto document = parse_json(json);
  if (!document || (*document)["data"].items().empty()) return {};
  return (*document)["data"].items().front()["id"].text();
}

unsigned StreamParser::feed(std::string_view bytes) {
  const std::uint32_t before = response_.output_events;
  reader_->read(bytes, Instant{});
  for (auto part = splitter_.next(bytes); part != EventSplitter::Part::more;
       part = splitter_.next(bytes)) {
    if (part == EventSplitter::Part::event_end) end_event();
    if (part != EventSplitter::Part::data || data_.size() >= max_error_bytes) continue;
    data_.append(splitter_.text().substr(0, max_error_bytes - data_.size()));
  }
  return response_.output_events - before;
}

void StreamParser::end_event() {
  const std::string_view data = trimmed(data_, " ");
  if (data == "[DONE]") done_ = true;
  if (error_.empty() && is_error(data)) error_ = data;
  data_.clear();
}

ResponseUsage StreamParser::usage() const { return usage_of(response_); }

}  // namespace evenkeel
