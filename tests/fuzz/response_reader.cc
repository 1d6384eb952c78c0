// Reader of models' responses. Properties: what it reports does not depend on how the bytes are
// split, and neither does what is left of a stream whose usage is removed, which is part of it.
#include "evenkeel/inference/response_reader.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "evenkeel/inference/event_editor.h"
#include "require.h"

namespace {

using namespace evenkeel;

template <class Take>
void in_pieces(std::string_view bytes, std::size_t piece, Take take) {
  while (!bytes.empty()) {
    const std::string here(bytes.substr(0, piece));  // the sanitizers detect reads beyond it
    take(std::string_view(here));
    bytes.remove_prefix(here.size());
  }
}

InferenceResponse read(ResponseFormat format, std::string_view bytes, std::size_t piece) {
  InferenceResponse response;
  const auto reader = ResponseReader::create(format, response);
  in_pieces(bytes, piece, [&](std::string_view part) { reader->read(part, Instant{}); });
  reader->finish(Instant{});
  return response;
}

bool same(const InferenceResponse& a, const InferenceResponse& b) {
  return a.prompt_tokens == b.prompt_tokens && a.completion_tokens == b.completion_tokens &&
         a.cached_tokens == b.cached_tokens && a.output_events == b.output_events &&
         a.finish_reason == b.finish_reason;
}

std::string edited(ResponseFormat format, std::string_view bytes, std::size_t piece,
                   const EventEdits& edits) {
  EventEditor editor(edits);
  InferenceResponse response;
  const auto reader = ResponseReader::create(format, response, {.errors = true, .editor = &editor});
  std::string left;
  in_pieces(bytes, piece, [&](std::string_view part) {
    editor.begin(part);
    reader->read(part, Instant{});
    left += editor.pass(false);
  });
  editor.begin({});
  reader->finish(Instant{});
  left += editor.pass(true);
  return left;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t whole = std::max<std::size_t>(size, 1);
  for (const ResponseFormat format : {ResponseFormat::events, ResponseFormat::json_lines,
                                      ResponseFormat::json, ResponseFormat::grpc_stream}) {
    const InferenceResponse response = read(format, bytes, whole);
    require(same(response, read(format, bytes, 1)), "one byte at a time reports the same");
    require(same(response, read(format, bytes, 7)), "seven bytes at a time report the same");
  }
  if (size > EventEditor::max_event) return 0;  // what is changed then depends on the pieces
  const auto check = [&](ResponseFormat format, const EventEdits& edits, std::string_view key) {
    const std::string left = edited(format, bytes, whole, edits);
    require(left == edited(format, bytes, 1, edits), "one byte at a time leaves the same");
    require(left == edited(format, bytes, 7, edits), "seven bytes at a time leave the same");
    const bool has_key = bytes.find(key) != std::string_view::npos;
    require(has_key || left == bytes, "what has nothing to change stays as it is");
  };
  for (const bool removes_null : {false, true}) {
    check(ResponseFormat::events, {.removes_usage = true, .removes_null = removes_null},
          "\"usage\"");
  }
  for (const ResponseFormat format :
       {ResponseFormat::events, ResponseFormat::json_lines, ResponseFormat::json})
    check(format, {.model = "\"m\""}, "\"model\"");
  return 0;
}
