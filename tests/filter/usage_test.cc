// What a request is billed by.
#include "evenkeel/filter/usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "evenkeel/json/value.h"
#include "stats/temporary_directory.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

class Usage : public ::testing::Test {
 protected:
  Usage() {
    info.inference = std::make_unique<InferenceInfo>();
    info.inference->request = {.task = InferenceTask::chat, .stream = true, .model = "llama"};
    info.inference->request.estimated_prompt_tokens = 50;
    info.outcome.status = 200;
    info.timings.head_sent = Instant(1s);
  }
  InferenceRequest& request() { return info.inference->request; }
  InferenceResponse& response() { return info.inference->response; }

  /// The record; null: none.
  JsonValue recorded(const UsageConfig& config = {}, int status = 200) {
    const TemporaryDirectory folder;
    auto log = AccessLog::open(folder / "usage", 1, AccessLog::Options::for_usage());
    UsageRecorder recorder(log->get()->ring(0), 1);
    recorder.configure(config);
    recorder.record(info, {.time = {}, .duration = 2s, .status = status, .aborted = status == 499});
    log->reset();
    auto event = parse_json(contents_of(folder / "usage"));
    return event ? std::move(*event) : JsonValue();
  }

  RequestInfo info;
};

TEST_F(Usage, IsAsTheEngineHasCounted) {
  response() = {.prompt_tokens = 70, .completion_tokens = 9, .cached_tokens = 64};
  response().output_events = 4;

  const BilledTokens tokens = billed_tokens(info, false);

  EXPECT_EQ(tokens.input, 70u);
  EXPECT_EQ(tokens.output, 9u);
  EXPECT_EQ(tokens.cached, 64u);
  EXPECT_FALSE(tokens.estimated);
}

TEST_F(Usage, IsEstimatedWhereTheEngineHasNotCounted) {
  response().output_events = 4;

  BilledTokens tokens = billed_tokens(info, false);
  EXPECT_EQ(tokens.input, 50u);
  EXPECT_EQ(tokens.output, 4u);
  EXPECT_TRUE(tokens.estimated);

  request().stream = false;
  response().output_events = 0;
  info.outcome.bytes_out = 400;
  EXPECT_EQ(billed_tokens(info, false).output, 100u);
}

TEST_F(Usage, OfAStreamThatBrokeIsWhatHasCome) {
  response() = {.prompt_tokens = 70, .completion_tokens = 1};  // Anthropic's first event
  response().output_events = 12;

  const BilledTokens tokens = billed_tokens(info, true);

  EXPECT_EQ(tokens.input, 70u);
  EXPECT_EQ(tokens.output, 12u);
  EXPECT_TRUE(tokens.estimated);
}

TEST_F(Usage, OfAClientThatLeftIsItsPrompt) {
  info.outcome.status = 0;
  info.outcome.bytes_out = 0;

  const BilledTokens tokens = billed_tokens(info, true);

  EXPECT_EQ(tokens.input, 50u);
  EXPECT_EQ(tokens.output, 0u);
  EXPECT_TRUE(tokens.estimated);
}

TEST_F(Usage, OfAnErrorIsNothing) {
  info.outcome.status = 500;
  info.outcome.bytes_out = 400;

  BilledTokens tokens = billed_tokens(info, false);
  EXPECT_EQ(tokens.input + tokens.output, 0u);
  EXPECT_FALSE(tokens.estimated);

  info.outcome.status = 0;  // it was evenkeel that ended it
  info.outcome.fault = Fault::draining;
  tokens = billed_tokens(info, true);
  EXPECT_EQ(tokens.input + tokens.output, 0u);
}

TEST_F(Usage, OfEmbeddingsHasNoOutput) {
  request().task = InferenceTask::embedding;
  request().stream = false;
  response().prompt_tokens = 7;
  info.outcome.bytes_out = 40'000;

  const BilledTokens tokens = billed_tokens(info, false);

  EXPECT_EQ(tokens.output, 0u);
  EXPECT_FALSE(tokens.estimated);
}

TEST_F(Usage, HasARecordOnlyIfABackendGotTheRequest) {
  EXPECT_FALSE(recorded().is_null());

  info.timings.head_sent = {};
  EXPECT_TRUE(recorded().is_null());

  info.timings.head_sent = Instant(1s);
  request().task = InferenceTask::other;
  EXPECT_TRUE(recorded().is_null());
}

TEST_F(Usage, CostsWhatTheFirstMatchingPriceSays) {
  response() = {.prompt_tokens = 1000, .completion_tokens = 100, .cached_tokens = 600};
  const UsageConfig config{
      .path = "usage",
      .source = "gpu-cluster",
      .prices = {{.model = "other", .input = 9, .output = 9, .cached_input = {}},
                 {.model = "lla*", .input = 0.6, .output = 1.8, .cached_input = 0.1},
                 {.model = "*", .input = 5, .output = 5, .cached_input = {}}}};

  JsonValue event = recorded(config);
  EXPECT_EQ(event["data"]["cost"].number_text(), "0.00048");  // 400 * 0.6 + 600 * 0.1 + 100 * 1.8
  EXPECT_EQ(event["source"].text(), "gpu-cluster");

  request().model = "alias";
  info.inference->served_model = "other";
  event = recorded({.path = "usage", .source = "", .prices = {config.prices[0]}});
  EXPECT_EQ(event["data"]["cost"].number_text(), "0.0099");
  EXPECT_EQ(event["data"]["model"].text(), "alias");
  EXPECT_EQ(event["data"]["served_model"].text(), "other");

  EXPECT_TRUE(recorded({.path = "usage", .source = "", .prices = {}})["data"]["cost"].is_null());
}

TEST_F(Usage, TellsWhatBecameOfTheRequest) {
  info.identity.request_id = "r-1";
  info.identity.tenant = {.name = "acme", .index = 1};
  info.identity.pool = "chat";
  info.identity.route = "default";
  info.outcome.backend = "10.0.0.2:8000";
  info.outcome.attempts.add({.backend = "10.0.0.1:8000"});
  info.outcome.attempts.add({.backend = "10.0.0.2:8000"});

  const JsonValue event = recorded({}, 499);

  EXPECT_EQ(event["subject"].text(), "acme");
  EXPECT_TRUE(event["source"].text().starts_with("evenkeel/"));
  EXPECT_EQ(event["id"].text().size(), 36u);
  const JsonValue& data = event["data"];
  EXPECT_EQ(data["request_id"].text(), "r-1");
  EXPECT_EQ(data["backend"].text(), "10.0.0.2:8000");
  EXPECT_EQ(data["retries"].number(), 1);
  EXPECT_EQ(data["status"].number(), 499);
  EXPECT_TRUE(data["aborted"].truth());
  EXPECT_EQ(data["duration_seconds"].number_text(), "2.000");
}

TEST_F(Usage, HasAnIdOfItsOwn) {
  info.identity.request_id = "the-client-repeats-it";

  EXPECT_NE(recorded()["id"].text(), "the-client-repeats-it");
}

}  // namespace
}  // namespace evenkeel::testing
