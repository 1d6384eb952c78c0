// Triton's gRPC inference service on one connection. HTTP/1.1 makes no difference to the handlers;
// tests/e2e uses gRPC's own clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/base/path.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/inference/grpc_message.h"
#include "evenkeel/inference/kserve_grpc.h"
#include "evenkeel/wire/link.h"
#include "sim/simulated_server.h"
#include "wire/scripted_body.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using testing::HasSubstr;

constexpr std::string_view service = "/inference.GRPCInferenceService/";

/// One call: sends what the test feeds, keeps what it receives.
class Call {
 public:
  Call(Loop& loop, Endpoint endpoint, std::string path, std::string type = "application/grpc",
       bool grpc_errors = false)
      : feed_(std::make_shared<BodyFeed>(loop)),
        task_(run(loop, endpoint, std::move(path), std::move(type), grpc_errors)) {}

  void send(std::string_view sent) {
    std::string frame;
    append_grpc_frame(frame, sent);
    feed_->push(std::move(frame));
  }
  void send_bytes(std::string bytes) { feed_->push(std::move(bytes)); }
  void finish() { feed_->end(); }
  void leave() { task_.drop(); }

  bool done = false;
  std::vector<std::string> messages;
  std::string status;   // of gRPC, in fields or trailers
  std::string message;  // likewise
  int http_status = 0;

 private:
  Task<void> run(Loop& loop, Endpoint endpoint, std::string path, std::string type,
                 bool grpc_errors) {
    auto fd = co_await dial(loop, endpoint, loop.now() + 5s);
    if (!fd) co_return;
    auto link = make_http1_link(std::make_unique<Socket>(loop, *fd), options_);
    Request request{.method = "POST", .authority = "sim", .path = path, .wants_trailers = true};
    request.fields.add("content-type", type);
    if (grpc_errors) request.fields.add("triton_grpc_error", "true");
    request.body = std::make_unique<ScriptedBody>(feed_);
    auto response = co_await link->send(request);
    if (!response) co_return;
    http_status = response->status;
    note(response->fields);
    GrpcMessageReader reader(64 << 20);
    while (response->body != nullptr) {
      auto chunk = co_await response->body->read();
      if (!chunk) co_return;
      std::string_view bytes = chunk->bytes;
      while (reader.read(bytes) == GrpcMessageReader::Step::message) {
        messages.emplace_back(reader.message());
      }
      if (chunk->trailers != nullptr) note(*chunk->trailers);
      if (chunk->last) break;
    }
    done = true;
  }
  void note(const Fields& fields) {
    if (const auto value = fields.value("grpc-status")) status = *value;
    if (const auto value = fields.value("grpc-message")) message = percent_decoded(*value);
  }

  LinkOptions options_;
  std::shared_ptr<BodyFeed> feed_;
  Task<void> task_;
};

InferTensor tensor(std::int64_t batch = 1) {
  return {.name = "INPUT0",
          .datatype = "INT32",
          .shape = {batch, 2},
          .data = std::string(static_cast<std::size_t>(batch) * 8, 'x')};
}

std::string inference(std::string id = "1", std::int64_t batch = 1) {
  return encode(
      ModelInferRequest{.model_name = "m", .id = std::move(id), .inputs = {tensor(batch)}});
}

std::string text_request(InferParameters parameters = {}) {
  parameters.emplace("max_tokens", std::int64_t{3});
  return encode(ModelInferRequest{.model_name = "m",
                                  .id = "t",
                                  .parameters = std::move(parameters),
                                  .inputs = {text_tensor("text_input", "hello there")}});
}

class GrpcSim : public testing::Test {
 protected:
  void start(BatchingSpec batching = {}, std::string engine = "triton") {
    const SimulatorOptions options{
        .engine = std::move(engine), .model = "m", .speed = 20, .batching = std::move(batching)};
    auto fd = Listener::bind(resolve("127.0.0.1", 0)->front());
    ASSERT_TRUE(fd.ok());
    endpoint_ = Listener::local_endpoint(*fd);
    server_ = std::make_unique<SimulatedServer>(loop_, options, *find_preset(options.preset),
                                                *find_simulated_engine(options.engine), *fd);
  }
  std::unique_ptr<Call> begin(std::string_view method, bool grpc_errors = false) {
    return std::make_unique<Call>(loop_, endpoint_, std::string(service) + std::string(method),
                                  "application/grpc", grpc_errors);
  }
  bool turn_until(const std::function<bool()>& holds) {
    return loop_.run_until(holds, Clock::now() + 20s);
  }
  /// A call of one message, to its end.
  std::unique_ptr<Call> ask(std::string_view method, std::string_view message = {}) {
    auto call = begin(method);
    call->send(message);
    call->finish();
    EXPECT_TRUE(turn_until([&] { return call->done; }));
    return call;
  }
  void set(std::string state) {
    ASSERT_TRUE(server_->control_page("/sim/v1/state", true, state).ok());
  }
  /// A sample of /metrics.
  double metric(const std::string& name) {
    const std::string page = page_of("/metrics");
    const auto at = page.find("\n" + name + "{model=\"m\",version=\"1\"} ");
    EXPECT_NE(at, std::string::npos) << name;
    return std::stod(page.substr(page.find('}', at) + 2));
  }
  std::string page_of(std::string path) {
    std::string page;
    bool done = false;
    const auto get = [&]() -> Task<void> {
      auto fd = co_await dial(loop_, endpoint_, loop_.now() + 5s);
      const LinkOptions options;
      auto link = make_http1_link(std::make_unique<Socket>(loop_, *fd), options);
      Request request{.method = "GET", .authority = "sim", .path = path};
      auto response = co_await link->send(request);
      Collected collected;
      co_await collect(*response->body, collected);
      page = collected.bytes;
      done = true;
    };
    const auto task = get();
    EXPECT_TRUE(turn_until([&] { return done; }));
    return page;
  }

  Loop loop_;
  Endpoint endpoint_;
  std::unique_ptr<SimulatedServer> server_;
};

TEST_F(GrpcSim, ReportsHealthAndMetadata) {
  start();
  EXPECT_EQ(ask("ServerLive")->messages, std::vector{encode_readiness(true)});
  EXPECT_EQ(ask("ServerReady")->messages, std::vector{encode_readiness(true)});
  EXPECT_EQ(ask("ModelReady", encode(ModelId{"m", ""}))->messages,
            std::vector{encode_readiness(true)});
  EXPECT_EQ(ask("ModelReady", encode(ModelId{"m", "2"}))->messages,
            std::vector{encode_readiness(false)});
  EXPECT_EQ(ask("ModelReady", encode(ModelId{"x", ""}))->messages,
            std::vector{encode_readiness(false)});
  EXPECT_EQ(
      decode_model_metadata(ask("ModelMetadata", encode(ModelId{"m", ""}))->messages[0])->name,
      "m");
  EXPECT_EQ(ask("ModelMetadata", encode(ModelId{"x", ""}))->status, "5");
  EXPECT_EQ(ask("ServerMetadata")->status, "0");
}

TEST_F(GrpcSim, IsNotReadyWhileItLoads) {
  start();
  set(R"({"fault":"loading"})");
  EXPECT_EQ(ask("ServerLive")->messages, std::vector{encode_readiness(true)});
  EXPECT_EQ(ask("ServerReady")->messages, std::vector{encode_readiness(false)});
  const auto infer = ask("ModelInfer", inference());
  EXPECT_EQ(infer->status, "14");
  EXPECT_THAT(infer->message, HasSubstr("has no available versions"));
}

TEST_F(GrpcSim, AnswersTheGrpcHealthCheck) {
  start();
  const auto check = [&] {
    Call call(loop_, endpoint_, "/grpc.health.v1.Health/Check");
    call.send(encode_health_check_request("any"));
    call.finish();
    EXPECT_TRUE(turn_until([&] { return call.done; }));
    return *decode_health_check_response(call.messages.at(0));
  };
  EXPECT_EQ(check(), ServingStatus::serving);
  set(R"({"fault":"loading"})");
  EXPECT_EQ(check(), ServingStatus::not_serving);
}

TEST_F(GrpcSim, ReturnsUnimplementedForUnknownMethods) {
  start();
  EXPECT_EQ(ask("TraceSetting")->status, "12");
  Call other(loop_, endpoint_, "/other.Service/Method");
  other.finish();
  EXPECT_TRUE(turn_until([&] { return other.done; }));
  EXPECT_EQ(other.status, "12");
  EXPECT_EQ(other.http_status, 200);

  start({}, "vllm");
  EXPECT_EQ(ask("ServerLive")->status, "12");
}

TEST_F(GrpcSim, IsAnIdentityModel) {
  start();
  const auto call = ask("ModelInfer", inference("id-1", 2));
  EXPECT_EQ(call->status, "0");
  ASSERT_EQ(call->messages.size(), 1u);
  const auto response = decode_model_infer_response(call->messages[0]);
  EXPECT_EQ(response->id, "id-1");
  EXPECT_EQ(response->model_name, "m");
  ASSERT_EQ(response->outputs.size(), 1u);
  EXPECT_EQ(response->outputs[0].name, "OUTPUT0");
  EXPECT_EQ(response->outputs[0].shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(response->outputs[0].data, tensor(2).data);
}

TEST_F(GrpcSim, SendsOnlyRequestedOutputs) {
  start();
  InferTensor second = tensor();
  second.name = "other";
  const auto wanting = [&](std::string output) {
    return ask("ModelInfer", encode(ModelInferRequest{.model_name = "m",
                                                      .inputs = {tensor(), second},
                                                      .outputs = {std::move(output)}}));
  };
  const auto response = decode_model_infer_response(wanting("other")->messages.at(0));
  ASSERT_EQ(response->outputs.size(), 1u);
  EXPECT_EQ(response->outputs[0].name, "other");
  EXPECT_EQ(wanting("nothing")->status, "3");
}

TEST_F(GrpcSim, ReportsInvalidRequests) {
  start();
  const auto why = [&](std::string_view message) {
    const auto call = ask("ModelInfer", message);
    return call->status + " " + call->message;
  };
  EXPECT_EQ(why(encode(ModelInferRequest{.model_name = "x"})),
            "5 Request for unknown model: 'x' is not found");
  EXPECT_EQ(why(encode(ModelInferRequest{.model_name = "m"})),
            "3 expected at least one input for model 'm'");
  InferTensor short_one = tensor();
  short_one.data = "abc";
  EXPECT_EQ(why(encode(ModelInferRequest{.model_name = "m", .inputs = {short_one}})),
            "3 unexpected total byte size 3 for input 'INPUT0', expecting 8");
  EXPECT_EQ(why(inference("1", 9)), "3 inference request batch-size must be <= 8 for 'm'");
  EXPECT_EQ(why("\xff"), "3 the message is no ModelInferRequest");
}

TEST_F(GrpcSim, ReportsFramingErrors) {
  start();
  const auto status_of_bytes = [&](std::string bytes) {
    auto call = begin("ModelInfer");
    call->send_bytes(std::move(bytes));
    call->finish();
    EXPECT_TRUE(turn_until([&] { return call->done; }));
    return call->status;
  };
  EXPECT_EQ(status_of_bytes("\7\0\0\0\0"s), "13");
  EXPECT_EQ(status_of_bytes("\0\0\0\0\5abc"s), "13");
  EXPECT_EQ(status_of_bytes("\0\x7f\0\0\0"s), "8");
  EXPECT_EQ(status_of_bytes("\1\0\0\0\1x"s), "12");
  EXPECT_EQ(status_of_bytes("\0\0\0\0\0\0\0\0\0\0"s), "13");
  EXPECT_EQ(status_of_bytes("\0"s), "13");
}

TEST_F(GrpcSim, FailsOnDemand) {
  start();
  set(R"({"fault":"error","error_status":503})");
  EXPECT_EQ(ask("ModelInfer", inference())->status, "14");
  EXPECT_EQ(ask("ServerReady")->status, "0");
}

TEST_F(GrpcSim, GeneratesText) {
  start();
  const auto call = ask("ModelInfer", text_request());
  const auto response = decode_model_infer_response(call->messages.at(0));
  ASSERT_EQ(response->outputs.size(), 1u);
  const std::string text(*first_text(response->outputs[0]));
  EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 2);
}

// ---- batches

TEST_F(GrpcSim, RunsConcurrentRequestsInOneBatch) {
  start({.max_batch_size = 8, .max_queue_delay = 200ms});
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 4; ++i) {
    calls.push_back(begin("ModelInfer"));
    calls.back()->send(inference(std::to_string(i), 2));
    calls.back()->finish();
  }
  for (const auto& call : calls) EXPECT_TRUE(turn_until([&] { return call->done; }));

  EXPECT_EQ(metric("nv_inference_request_success"), 4);
  EXPECT_EQ(metric("nv_inference_count"), 8);
  EXPECT_EQ(metric("nv_inference_exec_count"), 1);
}

TEST_F(GrpcSim, WaitsForOthersNoLongerThanTheDelay) {
  start({.max_queue_delay = 200ms});  // 10 ms at this speed
  const Instant began = Clock::now();
  EXPECT_EQ(ask("ModelInfer", inference())->status, "0");
  EXPECT_GE(Clock::now() - began, 10ms);
  EXPECT_GE(metric("nv_inference_queue_duration_us"), 10'000);
  EXPECT_EQ(metric("nv_inference_exec_count"), 1);
}

TEST_F(GrpcSim, BatchesRequestsOverHttpToo) {
  start();
  EXPECT_EQ(ask("ModelInfer", inference())->status, "0");
  bool done = false;
  const auto post = [&]() -> Task<void> {
    auto fd = co_await dial(loop_, endpoint_, loop_.now() + 5s);
    const LinkOptions options;
    auto link = make_http1_link(std::make_unique<Socket>(loop_, *fd), options);
    Request request{.method = "POST", .authority = "sim", .path = "/v2/models/m/infer"};
    request.body = make_body(
        R"({"inputs":[{"name":"INPUT0","datatype":"INT8","shape":[3,1],"data":[1,2,3]}]})");
    auto response = co_await link->send(request);
    EXPECT_EQ(response->status, 200);
    done = true;
  };
  const auto task = post();
  EXPECT_TRUE(turn_until([&] { return done; }));
  EXPECT_EQ(metric("nv_inference_count"), 4);
  EXPECT_EQ(metric("nv_inference_exec_count"), 2);
}

TEST_F(GrpcSim, ReportsQueueLengthAndRejectsWhenFull) {
  start({.max_batch_size = 1, .max_queue_size = 2, .batch_seconds = 1000});
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 3; ++i) {
    calls.push_back(begin("ModelInfer"));
    calls.back()->send(inference());
    calls.back()->finish();
  }
  EXPECT_TRUE(turn_until([&] { return metric("nv_inference_pending_request_count") == 2; }));

  const auto refused = ask("ModelInfer", inference());
  EXPECT_EQ(refused->status, "14");
  EXPECT_EQ(refused->message, "Exceeds maximum queue size");

  calls[2]->leave();
  EXPECT_TRUE(turn_until([&] { return metric("nv_inference_pending_request_count") == 1; }));
}

TEST_F(GrpcSim, MakesNoProgressWhileHung) {
  start({.batch_seconds = 1});
  auto before = begin("ModelInfer");
  before->send(inference());
  before->finish();
  EXPECT_TRUE(turn_until(
      [&] { return page_of("/sim/v1/report").find("\"requests\":1") != std::string::npos; }));
  set(R"({"fault":"hang"})");
  auto after = begin("ServerLive");
  after->send("");
  after->finish();
  loop_.run_until([] { return false; }, Clock::now() + 100ms);
  EXPECT_FALSE(before->done);
  EXPECT_FALSE(after->done);

  set(R"({"fault":"none"})");
  EXPECT_TRUE(turn_until([&] { return before->done && after->done; }));
  EXPECT_EQ(before->status + after->status, "00");
}

// ---- streams

std::vector<ModelStreamInferResponse> responses_of(const Call& call) {
  std::vector<ModelStreamInferResponse> responses;
  for (const std::string& message : call.messages) {
    responses.push_back(std::move(*decode_model_stream_infer_response(message)));
  }
  return responses;
}

bool is_final(const ModelStreamInferResponse& response) {
  return std::get<bool>(response.response.parameters.at("triton_final_response"));
}

TEST_F(GrpcSim, StreamsResponsesIncrementally) {
  start();
  auto call = begin("ModelStreamInfer");
  for (int i = 1; i <= 5; ++i) {
    call->send(inference(std::to_string(i)));
    const auto count = static_cast<std::size_t>(i);
    ASSERT_TRUE(turn_until([&] { return call->messages.size() == count; }));
    EXPECT_FALSE(call->done);
  }
  call->finish();
  ASSERT_TRUE(turn_until([&] { return call->done; }));
  EXPECT_EQ(call->status, "0");
  const auto responses = responses_of(*call);
  EXPECT_EQ(responses[4].response.id, "5");
  EXPECT_TRUE(is_final(responses[4]));
}

TEST_F(GrpcSim, BatchesTheRequestsOfOneStream) {
  start({.max_queue_delay = 200ms});
  auto call = begin("ModelStreamInfer");
  for (int i = 0; i < 8; ++i) call->send(inference(std::to_string(i)));
  call->finish();
  ASSERT_TRUE(turn_until([&] { return call->done; }));
  EXPECT_EQ(call->messages.size(), 8u);
  EXPECT_EQ(metric("nv_inference_exec_count"), 1);
}

TEST_F(GrpcSim, ReportsFailedRequestsInTheStream) {
  start();
  auto call = begin("ModelStreamInfer");
  call->send(encode(ModelInferRequest{.model_name = "x", .id = "bad"}));
  ASSERT_TRUE(turn_until([&] { return call->messages.size() == 1; }));
  call->send(inference("good"));
  call->finish();
  ASSERT_TRUE(turn_until([&] { return call->done; }));

  const auto responses = responses_of(*call);
  ASSERT_EQ(responses.size(), 2u);
  EXPECT_EQ(responses[0].error_message, "Request for unknown model: 'x' is not found");
  EXPECT_EQ(responses[0].response.id, "bad");
  EXPECT_EQ(responses[1].error_message, "");
  EXPECT_EQ(responses[1].response.id, "good");
  EXPECT_EQ(call->status, "0");
}

TEST_F(GrpcSim, EndsTheStreamWithAStatusOnRequest) {
  start();
  auto call = begin("ModelStreamInfer", true);
  call->send(encode(ModelInferRequest{.model_name = "x"}));
  ASSERT_TRUE(turn_until([&] { return call->done; }));
  EXPECT_EQ(call->status, "5");
  EXPECT_EQ(call->messages.size(), 0u);
}

TEST_F(GrpcSim, StreamsTextTokenByToken) {
  start();
  auto call = begin("ModelStreamInfer");
  call->send(text_request());
  call->finish();
  ASSERT_TRUE(turn_until([&] { return call->done; }));

  std::string text;
  std::string finals;
  for (const auto& each : responses_of(*call)) {
    text += *first_text(each.response.outputs.at(0));
    finals += is_final(each) ? '1' : '0';
  }
  EXPECT_EQ(finals, "001");
  EXPECT_EQ(text, *first_text(
                      decode_model_infer_response(ask("ModelInfer", text_request())->messages.at(0))
                          ->outputs[0]));
}

TEST_F(GrpcSim, EndsTextWithAnEmptyResponseOnRequest) {
  start();
  auto call = begin("ModelStreamInfer");
  call->send(text_request({{"triton_enable_empty_final_response", true}}));
  call->finish();
  ASSERT_TRUE(turn_until([&] { return call->done; }));

  const auto responses = responses_of(*call);
  ASSERT_EQ(responses.size(), 4u);
  EXPECT_FALSE(is_final(responses[2]));
  EXPECT_TRUE(is_final(responses[3]));
  EXPECT_TRUE(responses[3].response.outputs.empty());
}

TEST_F(GrpcSim, CancelsWhenTheClientLeavesTheStream) {
  start({.max_batch_size = 1, .batch_seconds = 1000});
  auto call = begin("ModelStreamInfer");
  for (int i = 0; i < 3; ++i) call->send(inference());
  ASSERT_TRUE(turn_until([&] { return metric("nv_inference_pending_request_count") == 2; }));
  call->leave();
  EXPECT_TRUE(turn_until([&] { return metric("nv_inference_pending_request_count") == 0; }));
  EXPECT_THAT(
      page_of("/metrics"),
      HasSubstr(R"(nv_inference_request_failure{model="m",version="1",reason="CANCELED"} 3)"));
}

TEST_F(GrpcSim, RejectsAMalformedStream) {
  start();
  auto call = begin("ModelStreamInfer");
  call->send_bytes("\0\0\0\0\5ab"s);
  call->finish();
  ASSERT_TRUE(turn_until([&] { return call->done; }));
  EXPECT_EQ(call->status, "13");
  EXPECT_EQ(call->message, "the stream ended within a message");
}

}  // namespace
}  // namespace evenkeel
