#include "evenkeel/inference/kserve_grpc.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace evenkeel {
namespace {

using std::string_literals::operator""s;

std::string bytes_of(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

/// Field `number` of wire type 2, by hand: an oracle that does not share our .proto files.
std::string field(int number, std::string_view value) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(value.size())} +
         std::string(value);
}
std::string varint_field(int number, int value) {
  return {static_cast<char>(number << 3), static_cast<char>(value)};
}

TEST(ModelInferRequest, IsReadByItsFieldNumbers) {
  const std::string parameter = field(1, "sequence_id") + field(2, varint_field(2, 7));
  const std::string start = field(1, "sequence_start") + field(2, varint_field(1, 1));
  const std::string input = field(1, "INPUT0") + field(2, "INT32") + field(3, "\1\2");
  const std::string message = field(1, "resnet") + field(2, "3") + field(3, "req-1") +
                              field(4, parameter) + field(4, start) + field(5, input) +
                              field(6, field(1, "OUTPUT0")) + field(7, "\1\0\0\0\2\0\0\0"s);

  const auto request = decode_model_infer_request(message);

  ASSERT_TRUE(request.ok()) << request.error().detail;
  EXPECT_EQ(request->model_name, "resnet");
  EXPECT_EQ(request->model_version, "3");
  EXPECT_EQ(request->id, "req-1");
  EXPECT_EQ(std::get<std::int64_t>(request->parameters.at("sequence_id")), 7);
  EXPECT_EQ(std::get<bool>(request->parameters.at("sequence_start")), true);
  ASSERT_EQ(request->inputs.size(), 1u);
  EXPECT_EQ(request->inputs[0].name, "INPUT0");
  EXPECT_EQ(request->inputs[0].datatype, "INT32");
  EXPECT_EQ(request->inputs[0].shape, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(request->inputs[0].data, "\1\0\0\0\2\0\0\0"s);
  EXPECT_EQ(request->outputs, std::vector<std::string>{"OUTPUT0"});
}

// Written by tritonclient 2.73's own service_pb2.
TEST(ModelInferMessages, AreReadAsTritonsClientWritesThem) {
  const auto request = decode_model_infer_request(
      bytes_of("0a087265736e657435301201311a03722d31220e0a087072696f726974791202280122110a0b7365"
               "7175656e63655f69641202102a22140a0e73657175656e63655f737461727412020801220e0a0174"
               "120921000000000000e03f220e0a0377686f12071a056772c3bc6e2a120a06494e50555430120446"
               "5033321a020104321f0a074f55545055543012140a0e636c617373696669636174696f6e12021003"
               "3a10000000000000803f0000004000004040"));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->model_name, "resnet50");
  EXPECT_EQ(request->parameters, (InferParameters{{"priority", std::uint64_t{1}},
                                                  {"sequence_id", std::int64_t{42}},
                                                  {"sequence_start", true},
                                                  {"t", 0.5},
                                                  {"who", "gr\xc3\xbcn"s}}));
  EXPECT_EQ(request->inputs[0].shape, (std::vector<std::int64_t>{1, 4}));
  EXPECT_EQ(request->inputs[0].data, bytes_of("000000000000803f0000004000004040"));
  EXPECT_EQ(request->outputs, std::vector<std::string>{"OUTPUT0"});

  const auto streamed = decode_model_stream_infer_response(
      bytes_of("12410a016d1201311a0139221b0a15747269746f6e5f66696e616c5f726573706f6e73651202080"
               "12a130a074f5554505554301205494e5433321a0101320401000000"));
  ASSERT_TRUE(streamed.ok());
  EXPECT_EQ(streamed->response.parameters, (InferParameters{{"triton_final_response", true}}));
  EXPECT_EQ(streamed->response.outputs[0].data, "\1\0\0\0"s);
}

TEST(ModelInferRequest, SkipsUnknownFields) {
  const auto request = decode_model_infer_request(field(1, "m") + field(15, "from the future"));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->model_name, "m");
}

TEST(ModelInferRequest, ReadsTypedContentsAsRawBytes) {
  const auto data_of = [](std::string_view datatype, std::string_view contents) {
    const auto request = decode_model_infer_request(
        field(5, field(1, "x") + field(2, datatype) + field(5, contents)));
    return request.ok() ? request->inputs[0].data : "error: " + request.error().detail;
  };
  EXPECT_EQ(data_of("BOOL", field(1, "\1\0"s)), "\1\0"s);
  EXPECT_EQ(data_of("INT8", field(2, "\1\2")), "\1\2");
  EXPECT_EQ(data_of("INT16", field(2, "\1\2")), "\1\0\2\0"s);
  EXPECT_EQ(data_of("INT32", field(2, "\1")), "\1\0\0\0"s);
  EXPECT_EQ(data_of("INT64", field(3, "\1")), "\1\0\0\0\0\0\0\0"s);
  EXPECT_EQ(data_of("UINT8", field(4, "\5")), "\5");
  EXPECT_EQ(data_of("UINT64", field(5, "\5")), "\5\0\0\0\0\0\0\0"s);
  EXPECT_EQ(data_of("FP32", field(6, bytes_of("0000803f"))), bytes_of("0000803f"));
  EXPECT_EQ(data_of("FP64", field(7, bytes_of("000000000000f03f"))), bytes_of("000000000000f03f"));
  EXPECT_EQ(data_of("BYTES", field(8, "hi") + field(8, "")), "\2\0\0\0hi\0\0\0\0"s);
}

TEST(ModelInferRequest, RefusesDataThatIsGivenTwiceOrNotAtAll) {
  const std::string input = field(1, "x") + field(2, "INT8");
  const auto why = [](const std::string& message) {
    const auto request = decode_model_infer_request(message);
    return request.ok() ? "" : request.error().detail;
  };
  EXPECT_EQ(why(field(5, input + field(5, field(2, "\1"))) + field(7, "\1")),
            "unexpected explicit tensor data for tensor 'x', binary data was already supplied");
  EXPECT_EQ(why(field(5, input) + field(5, input) + field(7, "\1")),
            "there are fewer raw contents than tensors: none for 'x'");
  EXPECT_EQ(why(field(5, input) + field(7, "\1") + field(7, "\2")),
            "there are more raw contents than tensors");
}

TEST(ModelInferRequest, DoesNotReadSharedMemory) {
  const std::string region = field(1, "shared_memory_region") + field(2, field(3, "region0"));
  const auto request = decode_model_infer_request(field(5, field(1, "a") + field(4, region)) +
                                                  field(5, field(1, "b")) + field(7, "B"));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->inputs[0].data, "");
  EXPECT_EQ(request->inputs[1].data, "B");
}

TEST(ModelInferRequest, RefusesOtherBytes) {
  for (const std::string& message : {"\xff"s, field(5, "\xff\xff"), "\x0a\x7f"s, "plain text"s}) {
    const auto request = decode_model_infer_request(message);
    ASSERT_FALSE(request.ok());
    EXPECT_EQ(request.error().fault, Fault::bad_request);
  }
}

TEST(ModelInferResponse, IsWrittenByItsFieldNumbers) {
  const ModelInferResponse response{
      .model_name = "m",
      .model_version = "1",
      .id = "i",
      .parameters = {{"triton_final_response", true}},
      .outputs = {{.name = "OUT", .datatype = "INT8", .shape = {2}, .data = "\1\2"}}};
  const std::string expected =
      field(1, "m") + field(2, "1") + field(3, "i") +
      field(4, field(1, "triton_final_response") + field(2, varint_field(1, 1))) +
      field(5, field(1, "OUT") + field(2, "INT8") + field(3, "\2")) + field(6, "\1\2");
  EXPECT_EQ(encode(response), expected);
  EXPECT_EQ(encode(ModelStreamInferResponse{.response = response}),
            std::string("\x12") + static_cast<char>(expected.size()) + expected);
  EXPECT_EQ(encode(ModelStreamInferResponse{.error_message = "no"}).substr(0, 4), field(1, "no"));
}

TEST(ModelInferMessages, SurviveARoundTrip) {
  const InferParameters parameters = {
      {"a", true}, {"b", std::int64_t{-1}}, {"c", "text"s}, {"d", 0.5}, {"e", ~std::uint64_t{0}}};
  const InferTensor tensor{.name = "t",
                           .datatype = "FP32",
                           .shape = {-1, 2},
                           .parameters = parameters,
                           .data = "8bytes!!"};
  const auto request = decode_model_infer_request(encode(ModelInferRequest{
      .model_name = "m", .parameters = parameters, .inputs = {tensor, tensor}, .outputs = {"o"}}));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->parameters, parameters);
  EXPECT_EQ(request->inputs[1].parameters, parameters);
  EXPECT_EQ(request->inputs[1].shape, tensor.shape);
  EXPECT_EQ(request->inputs[1].data, tensor.data);

  const ModelInferResponse response{.model_name = "m", .id = "7", .outputs = {tensor}};
  const auto again =
      decode_model_stream_infer_response(encode(ModelStreamInferResponse{.response = response}));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->response.id, "7");
  EXPECT_EQ(again->response.outputs[0].data, tensor.data);
}

TEST(Readiness, IsOneBool) {
  EXPECT_EQ(encode_readiness(true), "\x08\x01");
  EXPECT_EQ(encode_readiness(false), "");
  EXPECT_TRUE(*decode_readiness("\x08\x01"));
  EXPECT_FALSE(*decode_readiness(""));
}

TEST(Metadata, IsWrittenByItsFieldNumbers) {
  EXPECT_EQ(encode(ServerMetadata{.name = "triton", .version = "2", .extensions = {"a", "b"}}),
            field(1, "triton") + field(2, "2") + field(3, "a") + field(3, "b"));
  const std::string in = field(1, "I") + field(2, "FP32") + field(3, "\1");
  EXPECT_EQ(encode(ModelMetadata{.name = "m",
                                 .versions = {"1"},
                                 .platform = "p",
                                 .inputs = {{.name = "I", .datatype = "FP32", .shape = {1}}},
                                 .outputs = {{.name = "O"}}}),
            field(1, "m") + field(2, "1") + field(3, "p") + field(4, in) + field(5, field(1, "O")));
  EXPECT_EQ(decode_model_id(field(1, "m") + field(2, "4"))->version, "4");
}

TEST(Health, IsGrpcsOwn) {
  EXPECT_EQ(*decode_health_check_request(field(1, "svc")), "svc");
  EXPECT_EQ(encode_health_check_request("svc"), field(1, "svc"));
  EXPECT_EQ(encode(ServingStatus::serving), "\x08\x01");
  EXPECT_EQ(encode(ServingStatus::not_serving), "\x08\x02");
  EXPECT_EQ(*decode_health_check_response("\x08\x01"), ServingStatus::serving);
  EXPECT_EQ(*decode_health_check_response("\x08\x63"), ServingStatus::unknown);
}

TEST(Elements, AreTheProductOfTheShape) {
  EXPECT_EQ(elements_of({2, 3, 4}), 24u);
  EXPECT_EQ(elements_of({}), 1u);
  EXPECT_EQ(elements_of({5, 0}), 0u);
  EXPECT_EQ(elements_of({-1}), std::nullopt);
  EXPECT_EQ(elements_of({1LL << 40, 1LL << 40}), std::nullopt);
}

TEST(Elements, HaveTheSizeOfTheirDatatype) {
  EXPECT_EQ(element_bytes("FP16"), 2u);
  EXPECT_EQ(element_bytes("INT64"), 8u);
  EXPECT_EQ(element_bytes("BYTES"), 0u);
  EXPECT_EQ(element_bytes("fp32"), std::nullopt);
}

TEST(TextTensor, HoldsItsText) {
  EXPECT_EQ(first_text(text_tensor("t", "hello")), "hello");
  EXPECT_EQ(first_text({.datatype = "BYTES", .data = "\5\0\0\0hell"s}), std::nullopt);
  EXPECT_EQ(first_text({.datatype = "BYTES", .data = "\5"}), std::nullopt);
  EXPECT_EQ(first_text({.datatype = "INT8", .data = "\0\0\0\0"s}), std::nullopt);
}

}  // namespace
}  // namespace evenkeel
