// Requests whose bodies are not plain JSON: forms, gRPC, binary tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "evenkeel/inference/grpc_message.h"
#include "evenkeel/inference/kserve_grpc.h"
#include "inference/read_request.h"

namespace evenkeel {
namespace {

using testing::StartsWith;

void expect_cuts_do_not_matter(const RequestHead& head, std::string_view body) {
  const ReadRequest whole = read_request(head, body);
  for (std::size_t first = 0; first <= body.size(); ++first) {
    const std::size_t second = (first + body.size()) / 2;
    const ReadRequest cut = read_pieces(
        head, {body.substr(0, first), body.substr(first, second - first), body.substr(second)});
    ASSERT_EQ(facts_of(cut.request), facts_of(whole.request)) << "cut at " << first;
    ASSERT_EQ(cut.problem, whole.problem) << "cut at " << first;
  }
}

// ---- forms

RequestHead transcription(std::string_view content_type = "multipart/form-data; boundary=XyZ") {
  return {.method = "POST", .path = "/v1/audio/transcriptions", .content_type = content_type};
}

const std::string form =
    "preamble\r\n--XyZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n"
    "Content-Type: audio/wav\r\n\r\n" +
    std::string("\0\r\n--Xy\r\r\n--XyA--XyZ\r\n\r\nname=\"model\"\xff", 37) +
    "\r\n--XyZ  \r\ncontent-disposition: form-data; filename=\"a;b\"; name=model\r\n\r\nwhisper\r-1"
    "\r\n--XyZ\r\nContent-Disposition:form-data;name=\"stream\"\r\n\r\nTrue\r\n--XyZ\r\n"
    "Content-Disposition: form-data; name=\"prompt\"\r\n\r\nnames: \xc3\xa9\r\n--XyZ--\r\nepilogue";

TEST(FormRequest, ReadsFields) {
  const ReadRequest read = read_request(transcription(), form);

  EXPECT_TRUE(read.accepted);
  EXPECT_TRUE(read.request.complete);
  EXPECT_EQ(read.request.task, InferenceTask::audio);
  EXPECT_EQ(read.request.model, "whisper\r-1");
  EXPECT_TRUE(read.request.stream);
  EXPECT_EQ(read.request.prompt_bytes, 9u);
  EXPECT_TRUE(read.model_values.empty());
  EXPECT_FALSE(read.object_begin.has_value());
}

/// The model of a form with this parameter in place of `name`.
std::string model_of_part(const std::string& parameters) {
  return read_request(transcription(), "--XyZ\r\nContent-Disposition: form-data; " + parameters +
                                           "\r\n\r\nwhisper\r\n--XyZ--\r\n")
      .request.model;
}

TEST(FormRequest, ReadsExtendedNames) {
  EXPECT_EQ(model_of_part("name=model"), "whisper");
  EXPECT_EQ(model_of_part("name*=UTF-8''model"), "whisper");
  EXPECT_EQ(model_of_part("name*=utf-8'en'mod%65l"), "whisper");
  EXPECT_EQ(model_of_part("Name*=iso-8859-1''%6dodel; filename*=UTF-8''a"), "whisper");
  EXPECT_EQ(model_of_part("name*=UTF-8''other"), "");
}

TEST(FormRequest, KnowsNothingOfFormsWhoseNamesServersReadDifferently) {
  for (const char* parameters :
       {"name=other; name*=UTF-8''model", "name*=UTF-8''model; name=other",
        "name=model; NAME=other", "name*0=mod; name*1=el", "name*0*=UTF-8''model", "name*=model",
        "name*=utf-16''model", "name*=UTF-8''mod%6"}) {
    const ReadRequest read =
        read_request(transcription(),
                     "--XyZ\r\nContent-Disposition: form-data; name=model\r\n\r\nfirst\r\n--XyZ"
                     "\r\nContent-Disposition: form-data; " +
                         std::string(parameters) + "\r\n\r\nwhisper\r\n--XyZ--\r\n");
    EXPECT_EQ(read.request.model, "") << parameters;
    EXPECT_FALSE(read.request.complete) << parameters;
  }
}

TEST(FormRequest, CutsDoNotMatter) { expect_cuts_do_not_matter(transcription(), form); }

TEST(FormRequest, UnderstandsContentTypes) {
  const auto model = [](std::string_view content_type) {
    return read_request(transcription(content_type), form).request.model;
  };

  EXPECT_EQ(model("Multipart/Form-Data; charset=utf-8; Boundary=\"XyZ\"; x=y"), "whisper\r-1");
  EXPECT_EQ(model("multipart/form-data; boundary=XyZ ; x=y"), "whisper\r-1");
  EXPECT_EQ(model("multipart/form-data; boundary=other"), "");
  EXPECT_EQ(read_request(transcription("multipart/form-data"), form).problem, "not read");
  EXPECT_EQ(read_request(transcription("application/json"), "{}").problem, "not read");
  EXPECT_EQ(read_request({.method = "POST",
                          .path = "/v1/chat/completions",
                          .content_type = "multipart/form-data; boundary=XyZ"},
                         form)
                .problem,
            "invalid JSON at byte 0: a value expected")
      << "whatever its type says";
}

TEST(FormRequest, AFormWithoutItsEndIsNotComplete) {
  const ReadRequest read = read_request(transcription(), form.substr(0, form.size() - 20));

  EXPECT_TRUE(read.accepted);
  EXPECT_FALSE(read.request.complete);
  EXPECT_EQ(read.request.model, "whisper\r-1");
}

// ---- gRPC

RequestHead grpc(std::string_view method = "ModelInfer") {
  static std::string path;
  path = "/inference.GRPCInferenceService/" + std::string(method);
  return {.method = "POST", .path = path, .content_type = "application/grpc", .is_grpc = true};
}

std::string frame(const ModelInferRequest& request) {
  std::string framed;
  append_grpc_frame(framed, encode(request));
  return framed;
}

ModelInferRequest infer_request() {
  return {
      .model_name = "resnet",
      .model_version = "1",
      .parameters = {{"sequence_id", std::int64_t{300}}, {"sequence_start", true}},
      .inputs =
          {{.name = "a", .datatype = "FP32", .shape = {1, 250}, .data = std::string(1000, 'x')},
           {.name = "b", .datatype = "BYTES", .shape = {1}, .data = std::string("\3\0\0\0abc", 7)}},
      .outputs = {"c"}};
}

TEST(KserveGrpcRequest, ReadsARequest) {
  const ReadRequest read = read_request(grpc(), frame(infer_request()));

  EXPECT_TRUE(read.accepted);
  EXPECT_TRUE(read.request.complete);
  EXPECT_EQ(read.request.task, InferenceTask::infer);
  EXPECT_FALSE(read.request.stream);
  EXPECT_EQ(read.request.model, "resnet");
  EXPECT_EQ(read.request.session, "300");
  EXPECT_TRUE(read.request.starts_sequence);
  EXPECT_EQ(read.request.tensor_bytes, 1007u);
}

TEST(KserveGrpcRequest, CutsDoNotMatter) {
  expect_cuts_do_not_matter(grpc(), frame(infer_request()));
}

TEST(KserveGrpcRequest, ReadsSessionsOfAllTypes) {
  const auto session = [](InferParameter id) {
    ModelInferRequest request{.model_name = "m"};
    request.parameters["sequence_id"] = std::move(id);
    return read_request(grpc(), frame(request)).request.session;
  };

  EXPECT_EQ(session(std::string("abc")), "abc");
  EXPECT_EQ(session(std::uint64_t{1} << 63), "9223372036854775808");
  EXPECT_EQ(session(std::int64_t{0}), "");
  EXPECT_EQ(session(std::int64_t{-1}), "");
  EXPECT_EQ(session(true), "");
}

TEST(KserveGrpcRequest, TellsTheStartOfASequence) {
  const auto starts = [](InferParameter start) {
    ModelInferRequest request{.model_name = "m", .parameters = {{"sequence_id", std::int64_t{1}}}};
    request.parameters["sequence_start"] = std::move(start);
    return read_request(grpc(), frame(request)).request.starts_sequence;
  };

  EXPECT_TRUE(starts(true));
  EXPECT_FALSE(starts(false));
  EXPECT_FALSE(starts(std::int64_t{1}));
}

// An InferInputTensor with a name, a datatype, an unpacked shape of [2, 3] and contents.
std::string typed_tensor(std::string_view datatype, std::string_view contents) {
  const auto field = [](char tag, std::string_view value) {
    return std::string{tag, static_cast<char>(value.size())} + std::string(value);
  };
  const std::string tensor =
      field(0x0a, "t") + field(0x12, datatype) + "\x18\x02\x18\x03" + field(0x2a, contents);
  std::string framed;
  append_grpc_frame(framed, field(0x0a, "m") + field(0x2a, tensor));
  return framed;
}

TEST(KserveGrpcRequest, CountsTypedContents) {
  EXPECT_EQ(read_request(grpc(), typed_tensor("FP64", "1234")).request.tensor_bytes, 48u);
  EXPECT_EQ(read_request(grpc(), typed_tensor("BYTES", "1234")).request.tensor_bytes, 4u);
  expect_cuts_do_not_matter(grpc(), typed_tensor("INT8", "1234"));
}

TEST(KserveGrpcRequest, IsDoneBehindTheFirstMessageOfAStream) {
  InferenceRequest request;
  const auto reader = RequestReader::create(grpc("ModelStreamInfer"), request);
  const std::string first = frame(infer_request());

  EXPECT_TRUE(reader->read(std::string_view(first).substr(0, first.size() - 1)));
  EXPECT_FALSE(reader->done());
  EXPECT_TRUE(reader->read(std::string_view(first).substr(first.size() - 1)));
  EXPECT_TRUE(reader->done());
  reader->stop();

  EXPECT_TRUE(request.stream);
  EXPECT_EQ(request.model, "resnet");
  EXPECT_EQ(request.session, "300");
}

TEST(KserveGrpcRequest, SaysWhatTheBeginningSays) {
  InferenceRequest request;
  const auto reader = RequestReader::create(grpc(), request);

  EXPECT_TRUE(reader->read(frame(infer_request()).substr(0, 400)));
  reader->stop();

  EXPECT_FALSE(request.complete);
  EXPECT_EQ(request.model, "resnet");
  EXPECT_EQ(request.tensor_bytes, 1000u);
}

TEST(KserveGrpcRequest, DoesNotReadWhatIsCompressedOrNoMessage) {
  std::string compressed = frame(infer_request());
  compressed[0] = 1;
  std::string cut_short;  // a field that is longer than its message
  append_grpc_frame(cut_short, "\x0a\x05model");
  cut_short[4] = 5;

  for (const std::string& body :
       {compressed, cut_short, std::string("\0\0\0\0\3\xff\xff\xff", 8)}) {
    const ReadRequest read = read_request(grpc(), body);
    EXPECT_TRUE(read.accepted);
    EXPECT_FALSE(read.request.complete);
    EXPECT_EQ(read.request.model, "");
  }
}

TEST(KserveGrpcRequest, NeedsGrpc) {
  RequestHead head = grpc();
  head.is_grpc = false;
  EXPECT_FALSE(inference_api_of(head));
  EXPECT_EQ(inference_api_of(grpc()), InferenceApi::kserve_grpc);
}

// ---- binary tensors

TEST(BinaryTensors, FollowTheJson) {
  const std::string json = R"({"parameters":{"sequence_id":7},"inputs":[{"name":"a","shape":[2],
    "datatype":"FP32","parameters":{"binary_data_size":8}}]})";
  const std::string length = std::to_string(json.size());
  RequestHead head = post("/v2/models/m/infer");
  head.inference_header_length = length;
  const ReadRequest read = read_request(head, json + std::string("\xff\0\"}{[,:", 8));

  EXPECT_TRUE(read.accepted) << read.problem;
  EXPECT_TRUE(read.request.complete);
  EXPECT_EQ(read.request.model, "m");
  EXPECT_EQ(read.request.session, "7");
  EXPECT_EQ(read.request.tensor_bytes, 8u);
  expect_cuts_do_not_matter(head, json + std::string("\xff\0\"}{[,:", 8));
}

TEST(BinaryTensors, NeedNotBeWaitedFor) {
  RequestHead head = post("/v2/models/m/infer");
  head.inference_header_length = "2";
  InferenceRequest request;
  const auto reader = RequestReader::create(head, request);

  EXPECT_TRUE(reader->read("{"));
  EXPECT_FALSE(reader->done());
  EXPECT_TRUE(reader->read("}x"));
  EXPECT_TRUE(reader->done());
  EXPECT_TRUE(reader->finish());
}

TEST(BinaryTensors, TheirJsonIsChecked) {
  const auto problem = [](std::string_view length, std::string_view body) {
    RequestHead head = post("/v2/models/m/infer");
    head.inference_header_length = length;
    return read_request(head, body).problem;
  };

  EXPECT_THAT(problem("3", "{}x"), StartsWith("invalid JSON at byte 2"));
  EXPECT_THAT(problem("9", "{}"), StartsWith("invalid JSON at byte 2: the body ends within"));
  EXPECT_THAT(problem("1", "{}"), StartsWith("invalid JSON at byte 1: the body ends"));
  EXPECT_EQ(problem("0", "raw"), "not read");
  EXPECT_EQ(problem("2x", "{}"), "not read");
}

}  // namespace
}  // namespace evenkeel
