// Reader of models' responses. Properties: what it reports does not depend on how the bytes are
// split, and neither does what is left of a stream whose usage is removed, which is part of it.
#include "evenkeel/inference/response_reader.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "evenkeel/inference/usage_remover.h"
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

std::string without_usage(std::string_view bytes, std::size_t piece, bool removes_null) {
  UsageRemover remover(removes_null);
  InferenceResponse response;
  const auto reader =
      ResponseReader::create(ResponseFormat::events, response, {.errors = true, .usage = &remover});
  std::string left;
  in_pieces(bytes, piece, [&](std::string_view part) {
    remover.begin(part);
    reader->read(part, Instant{});
    left += remover.pass(false);
  });
  remover.begin({});
  reader->finish(Instant{});
  left += remover.pass(true);
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
  if (size > UsageRemover::max_event) return 0;  // what is removed then depends on the pieces
  for (const bool removes_null : {false, true}) {
    const std::string left = without_usage(bytes, whole, removes_null);
    require(left == without_usage(bytes, 1, removes_null), "one byte at a time leaves the same");
    require(left == without_usage(bytes, 7, removes_null), "seven bytes at a time leave the same");
    const bool has_usage = bytes.find("\"usage\"") != std::string_view::npos;
    require(has_usage || left == bytes, "a stream without usage stays as it is");
  }
  return 0;
}
