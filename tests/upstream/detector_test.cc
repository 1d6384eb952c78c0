#include "evenkeel/upstream/detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "upstream/test_server.h"

namespace evenkeel {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Not;
using testing::StartsWith;
using testing::UnorderedElementsAre;
using Outcome = DetectionResult::Outcome;

constexpr Duration patience = std::chrono::seconds(20);
constexpr Duration short_patience = std::chrono::milliseconds(600);

DetectionResult found(Loop& loop, const Endpoint& endpoint, Duration limit = patience) {
  auto task = detect(loop, {endpoint}, endpoint.text(), loop.read_clock() + limit);
  EXPECT_TRUE(loop.run_until([&] { return task.ready(); }, Clock::now() + 2 * patience));
  return task.take();
}

Address address_of(const Endpoint& endpoint) { return {endpoint.host(), endpoint.port()}; }

TEST(Detector, StopsAfterARoundThatIdentifiesTheEngine) {
  Loop loop;
  TestServer server(loop,
                    {{"/v1/models", {.body = R"({"data":[{"id":"llama","owned_by":"vllm"}]})"}}});

  const DetectionResult result = found(loop, server.endpoint());

  EXPECT_EQ(result.outcome, Outcome::answered);
  EXPECT_EQ(result.identity.engine, "vllm");
  EXPECT_THAT(result.identity.models, ElementsAre("llama"));
  EXPECT_THAT(server.requests(),
              UnorderedElementsAre("GET /v1/models", "GET /-/routes", "GET /v2"));
}

TEST(Detector, ProbesOnWhileTheEngineIsUnknown) {
  Loop loop;
  TestServer server(loop, {{"/", {.body = "Ollama is running"}}});

  const DetectionResult result = found(loop, server.endpoint());

  EXPECT_EQ(result.identity.engine, "ollama");
  EXPECT_THAT(server.requests(), IsSupersetOf({"GET /v1/models", "GET /info", "GET /"}));
}

TEST(Detector, SendsNothingThatHasAnEffect) {
  Loop loop;
  TestServer server(loop, {});

  const DetectionResult result = found(loop, server.endpoint());

  EXPECT_EQ(result.outcome, Outcome::answered);
  EXPECT_EQ(result.identity.engine, "generic");
  EXPECT_THAT(server.requests(), Each(StartsWith("GET /")));
  EXPECT_THAT(server.requests(), Not(Contains(StartsWith("GET /metrics"))));
  EXPECT_THAT(server.requests(), Not(Contains(StartsWith("GET /health"))));
}

TEST(Detector, KeepsAnswersWhenOneRequestTimesOut) {
  Loop loop;
  TestServer server(
      loop, {{"/v1/models", {.body = std::nullopt}}, {"/-/routes", {.body = R"({"/":"llm"})"}}});

  const DetectionResult result = found(loop, server.endpoint(), short_patience);

  EXPECT_EQ(result.outcome, Outcome::answered);
  EXPECT_EQ(result.identity.engine, "ray");
}

TEST(Detector, IsConclusiveWhenEveryRequestWasAnswered) {
  Loop loop;
  TestServer conclusive(loop, {{"/v1/models", {.status = 501, .body = ""}}});
  TestServer held_back(loop, {{"/v2", {.body = std::nullopt}}});
  TestServer failing(loop, {{"/info", {.status = 500, .body = ""}}});

  EXPECT_TRUE(found(loop, conclusive.endpoint()).conclusive);
  EXPECT_FALSE(found(loop, held_back.endpoint(), short_patience).conclusive);
  EXPECT_FALSE(found(loop, failing.endpoint()).conclusive);
  EXPECT_FALSE(found(loop, closed_endpoint()).conclusive);
}

TEST(Detector, ReportsWhyAServerIsSilent) {
  Loop loop;
  UnresponsiveServer deaf;

  const DetectionResult refused = found(loop, closed_endpoint());
  const DetectionResult late = found(loop, deaf.endpoint(), short_patience);

  EXPECT_EQ(refused.outcome, Outcome::silent);
  EXPECT_EQ(refused.reason, "Connection refused");
  EXPECT_EQ(late.outcome, Outcome::silent);
  EXPECT_EQ(late.reason, "no response in time");
}

TEST(Detector, NoticesAServerThatDoesNotSpeakHttp) {
  Loop loop;
  RawServer server(loop, "\x15\x03\x01\x02\x02\r\n\r\n");  // a TLS alert, more or less

  const DetectionResult result = found(loop, server.endpoint());

  EXPECT_EQ(result.outcome, Outcome::not_http);
  EXPECT_FALSE(result.reason.empty());
}

TEST(DetectAll, KeepsTheOrderAndWaitsForAllConcurrently) {
  constexpr int servers = 16;
  std::vector<UnresponsiveServer> deaf(servers);
  std::vector<Address> addresses;
  for (const UnresponsiveServer& server : deaf) addresses.push_back(address_of(server.endpoint()));
  addresses.insert(addresses.begin() + 1, address_of(closed_endpoint()));
  const Instant began = Clock::now();

  const std::vector<DetectionResult> results = detect_all(addresses, short_patience);

  ASSERT_EQ(results.size(), addresses.size());
  EXPECT_EQ(results[0].reason, "no response in time");
  EXPECT_EQ(results[1].reason, "Connection refused");
  EXPECT_EQ(results[2].reason, "no response in time");
  EXPECT_LT(Clock::now() - began, servers * short_patience);
}

TEST(DetectAll, ReportsANameWithoutAddress) {
  const std::string no_name(64, 'a');  // longer than a label may be: never sent to a name server

  const std::vector<DetectionResult> results = detect_all({{no_name, 8000}}, short_patience);

  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].outcome, Outcome::unresolved);
  EXPECT_THAT(results[0].reason, StartsWith("cannot resolve"));
}

TEST(DetectAll, ReturnsNothingForNoServers) { EXPECT_TRUE(detect_all({}, short_patience).empty()); }

}  // namespace
}  // namespace evenkeel
