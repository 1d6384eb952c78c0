#include "epp/checker_answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "evenkeel/http/fields.h"

namespace evenkeel {
namespace {

using Case = ext_proc::ProcessingResponse::ResponseCase;

std::optional<std::string> destination_in(const ext_proc::Struct& metadata) {
  const auto space = metadata.fields().find("envoy.lb");
  if (space == metadata.fields().end()) return std::nullopt;
  const auto& keys = space->second.struct_value().fields();
  const auto entry = keys.find(std::string(destination_header));
  if (entry == keys.end() || !entry->second.has_string_value()) return std::nullopt;
  return entry->second.string_value();
}

}  // namespace

void EchoedBody::add(const ext_proc::BodyResponse& response) {
  const ext_proc::BodyMutation& mutation = response.response().body_mutation();
  if (ends > 0) ++after_end;
  if (!mutation.has_streamed_response()) {
    ++unstreamed;
    bytes += mutation.body();
    return;
  }
  const ext_proc::StreamedBodyResponse& piece = mutation.streamed_response();
  ++pieces;
  largest = std::max(largest, piece.body().size());
  if (piece.end_of_stream()) ++ends;
  bytes += piece.body();
}

void PickerAnswer::add(const StreamEvent& event) {
  switch (event.kind) {
    case StreamEvent::Kind::message: return add(event.message);
    case StreamEvent::Kind::end:
      end = event.status;
      end_text = event.text;
      return;
    case StreamEvent::Kind::broken: failure = "the stream broke: " + event.text; return;
    case StreamEvent::Kind::timeout: failure = "no answer in time"; return;
  }
}

void PickerAnswer::add(const ext_proc::ProcessingResponse& message) {
  AnswerPart part = AnswerPart::nothing;
  switch (message.response_case()) {
    case Case::kRequestHeaders:
      part = AnswerPart::head;
      add_head(message);
      break;
    case Case::kRequestBody:
      part = AnswerPart::body;
      body.add(message.request_body());
      picks_with_body = picks_with_body || destination_in(message.dynamic_metadata()).has_value();
      break;
    case Case::kRequestTrailers: part = AnswerPart::trailers; break;
    case Case::kResponseHeaders: part = AnswerPart::response_head; break;
    case Case::kResponseBody:
      part = AnswerPart::response_body;
      response_body.add(message.response_body());
      break;
    case Case::kResponseTrailers: part = AnswerPart::response_trailers; break;
    case Case::kImmediateResponse:
      part = AnswerPart::immediate;
      immediate = {.status = message.immediate_response().status().code(),
                   .body = message.immediate_response().body()};
      break;
    case Case::RESPONSE_NOT_SET: break;
  }
  parts.push_back(part);
}

void PickerAnswer::add_head(const ext_proc::ProcessingResponse& message) {
  const ext_proc::CommonResponse& common = message.request_headers().response();
  clears_route_cache = clears_route_cache || common.clear_route_cache();
  for (const auto& option : common.header_mutation().set_headers()) {
    const ext_proc::HeaderValue& set = option.header();
    const std::string& value = set.raw_value().empty() ? set.value() : set.raw_value();
    if (equals_ignore_case(set.key(), destination_header)) {
      header = value;
      has_two_values = !set.value().empty() && !set.raw_value().empty();
    } else if (equals_ignore_case(set.key(), "content-length")) {
      content_length = value;
    }
  }
  for (const std::string& name : common.header_mutation().remove_headers()) {
    if (equals_ignore_case(name, "content-length")) removes_content_length = true;
  }
  if (const auto named = destination_in(message.dynamic_metadata())) metadata = named;
}

std::size_t PickerAnswer::count(AnswerPart part) const {
  return static_cast<std::size_t>(std::ranges::count(parts, part));
}

std::vector<std::string> PickerAnswer::endpoints() const {
  std::vector<std::string> list;
  std::string_view rest = header ? *header : metadata ? std::string_view(*metadata) : "";
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    list.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return list;
}

std::string PickerAnswer::summary() const {
  constexpr std::size_t max_text = 120;
  if (immediate) {
    const std::string_view text = std::string_view(immediate->body).substr(0, max_text);
    return fmt::format("ImmediateResponse {}{}{}", immediate->status, text.empty() ? "" : ": ",
                       text);
  }
  if (!failure.empty()) return failure;
  if (picked()) return header ? *header : *metadata;
  if (end) {
    return fmt::format("the stream ended with status {}{}{}", static_cast<int>(*end),
                       end_text.empty() ? "" : ": ", end_text);
  }
  return parts.empty() ? "no answer" : "an answer without an endpoint";
}

}  // namespace evenkeel
