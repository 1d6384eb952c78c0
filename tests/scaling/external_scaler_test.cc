#include "evenkeel/scaling/external_scaler.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "evenkeel/inference/grpc_message.h"
#include "scaler_proto/external_scaler.pb.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;
namespace pb = external_scaler;

constexpr Duration patience = 10s;  // reached only by a failing test

PoolScaling pool_of(std::string name, std::uint32_t desired) {
  PoolScaling pool{.pool = std::move(name), .config = {}, .sample = {}, .plan = {}};
  pool.plan.desired = desired;
  return pool;
}

/// What a call returns.
struct Outcome {
  std::string message;
  std::string status;
};

class Keda : public ::testing::Test {
 protected:
  void publish(std::vector<PoolScaling> pools) { feed_.publish({.pools = std::move(pools)}); }

  static pb::ScaledObjectRef ref(const std::string& pool = {}) {
    pb::ScaledObjectRef ref;
    ref.set_name("llama");
    if (!pool.empty()) (*ref.mutable_scaler_metadata())["pool"] = pool;
    return ref;
  }

  /// Begins a call. The request lives until the next one.
  Response begin(const std::string& method, const std::string& message) {
    std::string frame;
    append_grpc_frame(frame, message);
    path_ = "/externalscaler.ExternalScaler/" + method;
    request_ = std::make_unique<Request>();
    request_->method = "POST";
    request_->path = path_;
    request_->fields.add("content-type", "application/grpc");
    request_->body = make_body(std::move(frame));
    auto answering = scaler_.handle(*request_);
    EXPECT_TRUE(answering.ready());
    auto response = answering.take();
    EXPECT_TRUE(response.ok());
    return std::move(*response);
  }

  static Outcome unary(Response response) {
    Outcome outcome;
    if (response.body == nullptr) {
      outcome.status = response.fields.value("grpc-status").value_or("");
      return outcome;
    }
    const auto chunk = response.body->read().take();
    std::string_view bytes = chunk->bytes;
    GrpcMessageReader reader(1 << 20);
    if (reader.read(bytes) == GrpcMessageReader::Step::message) outcome.message = reader.message();
    if (chunk->trailers != nullptr)
      outcome.status = chunk->trailers->value("grpc-status").value_or("");
    return outcome;
  }

  /// The next message of a stream: whether the pool is active. Nothing: the stream has ended.
  std::optional<bool> next_activity(Body& body) {
    auto reading = body.read();
    const bool came = loop_.run_until([&] { return reading.ready(); }, Clock::now() + patience);
    if (!came) return std::nullopt;
    const auto chunk = reading.take();
    last_trailers_ = chunk->trailers;
    if (chunk->last) return std::nullopt;
    std::string_view bytes = chunk->bytes;
    GrpcMessageReader reader(1 << 20);
    EXPECT_EQ(reader.read(bytes), GrpcMessageReader::Step::message);
    pb::IsActiveResponse answer;
    EXPECT_TRUE(answer.ParseFromString(std::string(reader.message())));
    return answer.result();
  }

  Loop loop_;
  ScalingFeed feed_;
  ExternalScaler scaler_{&feed_, loop_};
  std::string path_;
  std::unique_ptr<Request> request_;
  const Fields* last_trailers_ = nullptr;
};

TEST_F(Keda, LearnsTheMetricAndItsTarget) {
  publish({pool_of("llama", 3)});

  const Outcome outcome = unary(begin("GetMetricSpec", ref().SerializeAsString()));

  pb::GetMetricSpecResponse answer;
  ASSERT_TRUE(answer.ParseFromString(outcome.message));
  ASSERT_EQ(answer.metric_specs_size(), 1);
  EXPECT_EQ(answer.metric_specs(0).metric_name(), "evenkeel-llama");
  EXPECT_EQ(answer.metric_specs(0).target_size(), 1);
  EXPECT_EQ(outcome.status, "0");
}

TEST_F(Keda, ReadsTheReplicasThatThePoolOfItsMetadataNeeds) {
  publish({pool_of("llama", 3), pool_of("qwen", 7)});
  pb::GetMetricsRequest request;
  *request.mutable_scaled_object_ref() = ref("qwen");
  request.set_metric_name("evenkeel-qwen");

  const Outcome outcome = unary(begin("GetMetrics", request.SerializeAsString()));

  pb::GetMetricsResponse answer;
  ASSERT_TRUE(answer.ParseFromString(outcome.message));
  ASSERT_EQ(answer.metric_values_size(), 1);
  EXPECT_EQ(answer.metric_values(0).metric_name(), "evenkeel-qwen");
  EXPECT_EQ(answer.metric_values(0).metric_value(), 7);
  EXPECT_EQ(answer.metric_values(0).metric_value_float(), 7);
}

TEST_F(Keda, LearnsWhetherThePoolNeedsAnyReplica) {
  const auto active = [&](std::uint32_t desired) {
    publish({pool_of("llama", desired)});
    pb::IsActiveResponse answer;
    EXPECT_TRUE(
        answer.ParseFromString(unary(begin("IsActive", ref().SerializeAsString())).message));
    return answer.result();
  };

  EXPECT_FALSE(active(0));
  EXPECT_TRUE(active(1));
}

TEST_F(Keda, IsToldWhatIsWrongWithItsMetadata) {
  publish({pool_of("llama", 3), pool_of("qwen", 7)});

  EXPECT_EQ(unary(begin("IsActive", ref("gemma").SerializeAsString())).status, "5");  // not found
  EXPECT_EQ(unary(begin("IsActive", ref().SerializeAsString())).status, "3");         // invalid
  EXPECT_EQ(unary(begin("IsActive", "\xff\xff")).status, "3");
  EXPECT_EQ(unary(begin("Dance", ref().SerializeAsString())).status, "12");  // unimplemented

  publish({});
  EXPECT_EQ(unary(begin("IsActive", ref().SerializeAsString())).status, "5");
}

TEST_F(Keda, IsToldAtOnceAndWheneverThePoolBecomesActive) {
  publish({pool_of("llama", 0)});
  const Response stream = begin("StreamIsActive", ref().SerializeAsString());
  ASSERT_EQ(next_activity(*stream.body), false);
  auto reading = stream.body->read();

  publish({pool_of("llama", 0)});
  loop_.run_until([&] { return reading.ready(); }, Clock::now() + 20ms);
  EXPECT_FALSE(reading.ready());
  reading.drop();

  publish({pool_of("llama", 1)});
  EXPECT_EQ(next_activity(*stream.body), true);
  publish({pool_of("llama", 2)});
  publish({pool_of("llama", 0)});
  EXPECT_EQ(next_activity(*stream.body), false);
}

TEST_F(Keda, AStreamEndsWithItsPoolAndWithTheProcess) {
  publish({pool_of("llama", 1)});
  const Response stream = begin("StreamIsActive", ref("llama").SerializeAsString());
  ASSERT_EQ(next_activity(*stream.body), true);
  publish({pool_of("qwen", 1)});
  EXPECT_EQ(next_activity(*stream.body), std::nullopt);
  ASSERT_NE(last_trailers_, nullptr);
  EXPECT_EQ(last_trailers_->value("grpc-status"), "5");

  const Response other = begin("StreamIsActive", ref("qwen").SerializeAsString());
  ASSERT_EQ(next_activity(*other.body), true);
  feed_.close();
  EXPECT_EQ(next_activity(*other.body), std::nullopt);
  ASSERT_NE(last_trailers_, nullptr);
  EXPECT_EQ(last_trailers_->value("grpc-status"), "14");  // unavailable
}

TEST_F(Keda, WhatIsNotGrpcIsNotFound) {
  Request request;
  request.method = "GET";
  request.path = "/";

  auto answering = scaler_.handle(request);

  EXPECT_EQ(answering.take()->status, 404);
}

}  // namespace
}  // namespace evenkeel::testing
