#include "evenkeel/fleet/detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fleet/small_server.h"

namespace evenkeel {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Not;
using testing::StartsWith;
using testing::UnorderedElementsAre;
using Outcome = Finding::Outcome;

constexpr Duration patience = std::chrono::seconds(20);
constexpr Duration short_patience = std::chrono::milliseconds(600);

Finding found(Loop& loop, const Endpoint& endpoint, Duration limit = patience) {
  auto task = detect(loop, {endpoint}, endpoint.text(), loop.read_clock() + limit);
  EXPECT_TRUE(loop.run_until([&] { return task.ready(); }, Clock::now() + 2 * patience));
  return task.take();
}

Address address_of(const Endpoint& endpoint) { return {endpoint.host(), endpoint.port()}; }

TEST(Detector, AsksNoFurtherWhenTheFirstRoundTells) {
  Loop loop;
  SmallServer server(loop,
                     {{"/v1/models", {.body = R"({"data":[{"id":"llama","owned_by":"vllm"}]})"}}});

  const Finding finding = found(loop, server.endpoint());

  EXPECT_EQ(finding.outcome, Outcome::answered);
  EXPECT_EQ(finding.identity.engine, "vllm");
  EXPECT_THAT(finding.identity.models, ElementsAre("llama"));
  EXPECT_THAT(server.asked(), UnorderedElementsAre("GET /v1/models", "GET /-/routes", "GET /v2"));
}

TEST(Detector, AsksFurtherWhenTheFirstRoundDoesNotTell) {
  Loop loop;
  SmallServer server(loop, {{"/", {.body = "Ollama is running"}}});

  const Finding finding = found(loop, server.endpoint());

  EXPECT_EQ(finding.identity.engine, "ollama");
  EXPECT_THAT(server.asked(), IsSupersetOf({"GET /v1/models", "GET /info", "GET /"}));
}

TEST(Detector, AsksNothingThatHasAnEffect) {
  Loop loop;
  SmallServer server(loop, {});

  const Finding finding = found(loop, server.endpoint());

  EXPECT_EQ(finding.outcome, Outcome::answered);
  EXPECT_EQ(finding.identity.engine, "generic");
  EXPECT_THAT(server.asked(), Each(StartsWith("GET /")));
  EXPECT_THAT(server.asked(), Not(Contains(StartsWith("GET /metrics"))));
  EXPECT_THAT(server.asked(), Not(Contains(StartsWith("GET /health"))));
}

TEST(Detector, KeepsWhatItHeardWhenOneQuestionIsHeldBack) {
  Loop loop;
  SmallServer server(
      loop, {{"/v1/models", {.body = std::nullopt}}, {"/-/routes", {.body = R"({"/":"llm"})"}}});

  const Finding finding = found(loop, server.endpoint(), short_patience);

  EXPECT_EQ(finding.outcome, Outcome::answered);
  EXPECT_EQ(finding.identity.engine, "ray");
}

TEST(Detector, KnowsWhetherEveryQuestionWasTold) {
  Loop loop;
  SmallServer whole(loop, {{"/v1/models", {.status = 501, .body = ""}}});
  SmallServer held_back(loop, {{"/v2", {.body = std::nullopt}}});
  SmallServer failing(loop, {{"/info", {.status = 500, .body = ""}}});

  EXPECT_TRUE(found(loop, whole.endpoint()).whole);
  EXPECT_FALSE(found(loop, held_back.endpoint(), short_patience).whole);
  EXPECT_FALSE(found(loop, failing.endpoint()).whole);
  EXPECT_FALSE(found(loop, closed_endpoint()).whole);
}

TEST(Detector, SaysWhyAServerIsSilent) {
  Loop loop;
  DeafServer deaf;

  const Finding refused = found(loop, closed_endpoint());
  const Finding late = found(loop, deaf.endpoint(), short_patience);

  EXPECT_EQ(refused.outcome, Outcome::silent);
  EXPECT_EQ(refused.reason, "Connection refused");
  EXPECT_EQ(late.outcome, Outcome::silent);
  EXPECT_EQ(late.reason, "no answer in time");
}

TEST(Detector, SeesThatAPeerSpeaksSomethingElse) {
  Loop loop;
  RawServer server(loop, "\x15\x03\x01\x02\x02\r\n\r\n");  // a TLS alert, more or less

  const Finding finding = found(loop, server.endpoint());

  EXPECT_EQ(finding.outcome, Outcome::not_http);
  EXPECT_FALSE(finding.reason.empty());
}

TEST(DetectAll, KeepsTheOrderAndWaitsForAllAtTheSameTime) {
  constexpr int servers = 16;
  std::vector<DeafServer> deaf(servers);
  std::vector<Address> addresses;
  for (const DeafServer& server : deaf) addresses.push_back(address_of(server.endpoint()));
  addresses.insert(addresses.begin() + 1, address_of(closed_endpoint()));
  const Instant began = Clock::now();

  const std::vector<Finding> findings = detect_all(addresses, short_patience);

  ASSERT_EQ(findings.size(), addresses.size());
  EXPECT_EQ(findings[0].reason, "no answer in time");
  EXPECT_EQ(findings[1].reason, "Connection refused");
  EXPECT_EQ(findings[2].reason, "no answer in time");
  EXPECT_LT(Clock::now() - began, servers * short_patience);
}

TEST(DetectAll, SaysThatANameHasNoAddress) {
  const std::string no_name(64, 'a');  // longer than a label may be: nobody is asked for it

  const std::vector<Finding> findings = detect_all({{no_name, 8000}}, short_patience);

  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].outcome, Outcome::unresolved);
  EXPECT_THAT(findings[0].reason, StartsWith("cannot resolve"));
}

TEST(DetectAll, OfNobodyFindsNothing) { EXPECT_TRUE(detect_all({}, short_patience).empty()); }

}  // namespace
}  // namespace evenkeel
