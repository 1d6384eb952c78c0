// Reads whole bodies with RequestReader, as tests need it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "evenkeel/inference/request_reader.h"

namespace evenkeel {

struct ReadRequest {
  InferenceRequest request;
  bool accepted = false;
  std::string problem;
  std::vector<BodyRange> model_values;
  std::optional<BodyRange> stream_options;
  std::optional<std::uint64_t> object_begin;
};

/// All that is known of a request, for comparisons.
inline auto facts_of(const InferenceRequest& it) {
  return std::tuple(it.task, it.complete, it.stream, it.include_usage, it.model, it.max_tokens,
                    it.choices, it.prompt_bytes, it.prompt_tokens, it.images, it.tensor_bytes,
                    it.session, it.starts_sequence, it.user, it.priority, it.conversation,
                    it.prefix_blocks);
}

inline auto ranges_of(const ReadRequest& it) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const BodyRange& each : it.model_values) ranges.emplace_back(each.begin, each.end);
  if (it.stream_options) ranges.emplace_back(it.stream_options->begin, it.stream_options->end);
  ranges.emplace_back(it.object_begin.value_or(0), it.object_begin.has_value());
  return ranges;
}

/// Feeds the pieces of a body; each is copied, so that sanitizers find reads beyond it.
inline ReadRequest read_pieces(const RequestHead& head,
                               const std::vector<std::string_view>& pieces) {
  ReadRequest result;
  const auto reader = RequestReader::create(head, result.request);
  if (!reader) {
    result.problem = "not read";
    return result;
  }
  bool well_formed = true;
  for (const std::string_view piece : pieces) {
    const std::vector<char> copy(piece.begin(), piece.end());
    well_formed = well_formed && reader->read({copy.data(), copy.size()});
  }
  result.accepted = well_formed && reader->finish();
  if (!result.accepted) result.problem = reader->error().detail;
  result.model_values = reader->take_model_values();
  result.stream_options = reader->stream_options();
  result.object_begin = reader->object_begin();
  return result;
}

inline RequestHead post(std::string_view path) {
  return {.method = "POST", .path = path, .content_type = "application/json"};
}

inline ReadRequest read_request(const RequestHead& head, std::string_view body) {
  return read_pieces(head, {body});
}

inline ReadRequest read_request(std::string_view path, std::string_view body) {
  return read_request(post(path), body);
}

}  // namespace evenkeel
