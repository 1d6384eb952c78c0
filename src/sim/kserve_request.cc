#include "sim/kserve_request.h"

#include "sim/json_fields.h"

namespace evenkeel {
namespace {

std::uint64_t count_elements(const JsonValue& data) {
  if (!data.is_array()) return 1;
  std::uint64_t count = 0;
  for (const JsonValue& element : data.items()) count += count_elements(element);
  return count;
}

Result<KserveTensor> read_tensor(const JsonValue& input) {
  if (!input.is_object()) return bad_request("'inputs': each should be an object");
  JsonFields fields(input);
  KserveTensor tensor{.name = fields.text("name"),
                      .datatype = fields.text("datatype"),
                      .shape = json_text(input["shape"]),
                      .data = json_text(input["data"]),
                      .elements = count_elements(input["data"])};
  for (const char* key : {"shape", "data"}) {
    if (!input[key].is_array() && !input[key].is_null()) fields.refuse(key, "should be an array");
  }
  if (!fields.problem().empty()) return bad_request(fields.problem());
  if (tensor.name.empty()) return bad_request("'inputs': an input has no name");
  if (input["data"].is_null()) {
    return bad_request("input '" + tensor.name + "' has no data; binary data is not read here");
  }
  return tensor;
}

}  // namespace

std::string output_name(std::string input) {
  if (const auto at = input.find("INPUT"); at != std::string::npos) input.replace(at, 5, "OUTPUT");
  return input;
}

Result<KserveInferRequest> parse_kserve_infer(std::string_view body) {
  const auto document = parse_json_object(body);
  if (!document) return document.error();
  JsonFields fields(*document);
  KserveInferRequest request{.id = fields.text("id"), .inputs = {}};
  const JsonValue& inputs = fields["inputs"];
  if (!inputs.is_array() && !inputs.is_null()) fields.refuse("inputs", "should be an array");
  if (!fields.problem().empty()) return bad_request(fields.problem());
  for (const JsonValue& input : inputs.items()) {
    auto tensor = read_tensor(input);
    if (!tensor) return std::move(tensor.error());
    request.inputs.push_back(std::move(*tensor));
  }
  if (request.inputs.empty()) return bad_request("the request has no inputs");
  return request;
}

Result<KserveGenerateRequest> parse_kserve_generate(std::string_view body) {
  const auto document = parse_json_object(body);
  if (!document) return document.error();
  JsonFields outside(*document);
  JsonFields inside(outside["parameters"]);
  KserveGenerateRequest request{.text_input = outside.text("text_input"),
                                .max_tokens = outside.count("max_tokens", 1),
                                .stream = outside.truth("stream") || inside.truth("stream")};
  if (!request.max_tokens) request.max_tokens = inside.count("max_tokens", 1);
  for (const JsonFields* fields : {&outside, &inside}) {
    if (!fields->problem().empty()) return bad_request(fields->problem());
  }
  if (!outside["text_input"].is_text()) return bad_request("the request has no 'text_input'");
  return request;
}

}  // namespace evenkeel
