// Bodies of requests to models. The first byte chooses the API and the encoding. Properties: the
// facts do not depend on how the bytes are cut; JSON is well-formed where simdjson finds it so, and
// the plain facts are those of its tree.
#include "evenkeel/inference/request_reader.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/json/value.h"
#include "inference/read_request.h"
#include "require.h"

namespace {

using namespace evenkeel;

RequestHead encoded(std::string_view path, std::string_view encoding) {
  RequestHead head = post(path);
  head.content_encoding = encoding;
  return head;
}

RequestHead form() {
  return {.method = "POST",
          .path = "/v1/audio/transcriptions",
          .content_type = "multipart/form-data; boundary=b"};
}

RequestHead grpc(std::string_view path) {
  return {.method = "POST", .path = path, .is_grpc = true};
}

RequestHead binary_tensors(std::string_view json_bytes) {
  RequestHead head = post("/v2/models/m/infer");
  head.inference_header_length = json_bytes;
  return head;
}

const RequestHead heads[] = {
    post("/v1/chat/completions"),
    post("/v1/completions"),
    post("/v1/responses"),
    post("/v1/embeddings"),
    post("/v1/messages"),
    post("/v1/rerank"),
    post("/v1/score"),
    post("/api/chat"),
    post("/api/generate"),
    post("/generate"),
    post("/v2/models/m/infer"),
    post("/v2/models/m/generate"),
    form(),
    grpc("/inference.GRPCInferenceService/ModelInfer"),
    binary_tensors("10"),
    binary_tensors("100"),
    encoded("/v1/chat/completions", "gzip"),
    encoded("/v1/chat/completions", "deflate"),
    encoded("/v1/chat/completions", "zstd"),
};

std::vector<std::string_view> cut(std::string_view body, std::size_t piece) {
  std::vector<std::string_view> pieces;
  for (; !body.empty(); body.remove_prefix(std::min(piece, body.size()))) {
    pieces.push_back(body.substr(0, piece));
  }
  return pieces;
}

void require_same(const ReadRequest& one, const ReadRequest& other) {
  require(one.accepted == other.accepted && one.problem == other.problem,
          "cuts do not change what is well-formed");
  require(ranges_of(one) == ranges_of(other), "cuts do not move the places of values");
  if (!one.accepted) return;
  require(facts_of(one.request) == facts_of(other.request), "cuts do not change the facts");
}

// simdjson refuses some documents that are JSON: lone surrogates, or nested deeply.
bool is_beyond_simdjson(std::string_view problem) {
  constexpr std::string_view parts[] = {"Problem while parsing a string", "too deep"};
  return std::ranges::any_of(parts, [&](auto each) { return problem.find(each) != problem.npos; });
}

void compare_with_simdjson(std::string_view body, const ReadRequest& read, bool is_chat) {
  const auto tree = parse_json(body);
  if (!tree) {
    require(!read.accepted || is_beyond_simdjson(tree.error().detail),
            "simdjson finds it malformed");
    return;
  }
  // simdjson lets a number that is the whole document end at a NUL.
  const bool refused_by_choice = body.starts_with("\xef\xbb\xbf") ||
                                 (tree->is_number() && body.ends_with('\0')) ||
                                 read.problem.find("nested too deeply") != std::string::npos;
  require(read.accepted || refused_by_choice, "simdjson finds it well-formed");
  if (!read.accepted || !is_chat) return;
  const std::string& model = (*tree)["model"].text();
  if (model.size() < InferenceRequest::max_name &&
      read.request.model.find('\0') == std::string::npos) {
    require(read.request.model == model, "the model is simdjson's");
  }
  require(read.request.stream == (*tree)["stream"].truth(), "so is whether it streams");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const RequestHead& head = heads[data[0] % std::size(heads)];
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);

  const ReadRequest whole = read_request(head, body);
  require_same(whole, read_pieces(head, cut(body, 1)));
  require_same(whole, read_pieces(head, cut(body, 7)));
  require_same(whole, read_pieces(head, cut(body, 1 + data[0] / std::size(heads))));
  const bool is_plain_json = head.content_type == "application/json" &&
                             head.content_encoding.empty() && head.inference_header_length.empty();
  if (is_plain_json) compare_with_simdjson(body, whole, head.path == "/v1/chat/completions");
  return 0;
}
