// gRPC framing and KServe messages. Properties: the result does not depend on how the bytes are
// split, a message has the length in its prefix, and encoding and decoding a message again does not
// change it.
#include "evenkeel/inference/kserve_grpc.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/inference/grpc_message.h"
#include "require.h"

namespace {

using namespace evenkeel;
using Step = GrpcMessageReader::Step;

constexpr std::size_t largest = 4096;

struct ParseResult {
  Step step = Step::more;
  bool at_boundary = true;
  std::vector<std::string> messages;

  bool operator==(const ParseResult&) const = default;
};

/// Feeds the bytes `piece` at a time.
ParseResult read(std::string_view bytes, std::size_t piece) {
  GrpcMessageReader reader(largest);
  ParseResult result;
  while (!bytes.empty()) {
    // A copy, so that ASan detects reads beyond it.
    const std::string copy(bytes.substr(0, piece));
    bytes.remove_prefix(copy.size());
    std::string_view rest = copy;
    while ((result.step = reader.read(rest)) == Step::message) {
      require(reader.message().size() <= largest, "no message is larger than allowed");
      result.messages.emplace_back(reader.message());
    }
    if (result.step != Step::more) return result;
    require(rest.empty(), "everything is consumed while more is expected");
  }
  result.at_boundary = reader.at_boundary();
  return result;
}

void write_again(const ParseResult& result) {
  std::string out;
  for (const std::string& message : result.messages) append_grpc_frame(out, message);
  require(read(out, out.size()).messages == result.messages, "messages frame to the same bytes");
}

void decode(std::string_view message) {
  if (const auto request = decode_model_infer_request(message)) {
    for (const InferTensor& input : request->inputs) {
      static_cast<void>(elements_of(input.shape));
      if (const auto text = first_text(input)) {
        require(text->size() + 4 <= input.data.size(), "a text is inside its tensor");
      }
    }
    const auto again = decode_model_infer_request(encode(*request));
    // Tensors in shared memory have no raw contents, but we write some for every tensor.
    if (again) {
      require(again->model_name == request->model_name && again->id == request->id &&
                  again->inputs.size() == request->inputs.size() &&
                  again->outputs == request->outputs,
              "a request comes back as it was");
    }
  }
  static_cast<void>(decode_model_infer_response(message));
  static_cast<void>(decode_model_stream_infer_response(message));
  static_cast<void>(decode_model_id(message));
  static_cast<void>(decode_model_metadata(message));
  static_cast<void>(decode_health_check_request(message));
  static_cast<void>(decode_health_check_response(message));
  static_cast<void>(decode_readiness(message));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const ParseResult whole = read(bytes, std::max<std::size_t>(bytes.size(), 1));
  require(whole == read(bytes, 1), "one byte at a time gives the same result");
  require(whole == read(bytes, 7), "seven bytes at a time give the same result");
  write_again(whole);
  for (const std::string& message : whole.messages) decode(message);
  decode(bytes);
  return 0;
}
