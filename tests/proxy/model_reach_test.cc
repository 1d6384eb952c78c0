#include "proxy/model_reach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Api = ModelReach::Api;

class ModelReaches : public testing::Test {
 protected:
  ModelReaches() {
    for (const char* name : {"a", "b", "c"}) config.pools.push_back({.name = name});
  }
  void route(RouteMatch match, std::vector<RouteTarget> targets) {
    config.routes.push_back({.match = std::move(match), .targets = std::move(targets)});
  }
  ModelReach::Pools reach(std::string_view authority, const Fields* fields, Api api = Api::openai) {
    return ModelReach(config).pools_for(api, authority, fields);
  }
  static std::vector<std::size_t> numbers(const ModelReach::Pools& pools) {
    std::vector<std::size_t> found;
    for (const ModelReach::Pool& pool : pools.list) found.push_back(pool.number);
    return found;
  }
  std::vector<std::size_t> pools(std::string_view authority = "x", const Fields& fields = {}) {
    return numbers(reach(authority, &fields));
  }
  bool merges() {
    const Fields none;
    return ModelReach(config).merges(reach("x", &none));
  }

  Config config{.pools = {}};
};

TEST_F(ModelReaches, AreThePoolsOfTheFirstRouteForEachApi) {
  route({.path = "/v1/embeddings"}, {{.pool = "c"}});
  route({.path = "/v1/**"}, {{.pool = "b"}});
  route({}, {{.pool = "a"}});  // never reached
  EXPECT_THAT(pools(), ElementsAre(1, 2));
}

TEST_F(ModelReaches, AreAllPoolsOfASplitThatHaveAShare) {
  route({}, {{.pool = "c", .weight = 95}, {.pool = "a", .weight = 5}, {.pool = "b", .weight = 0}});
  EXPECT_THAT(pools(), ElementsAre(0, 2));
}

TEST_F(ModelReaches, AreThoseOfTheHost) {
  route({.host = "a.example"}, {{.pool = "a"}});
  route({.host = "*.b.example"}, {{.pool = "b"}});
  route({}, {{.pool = "c"}});
  EXPECT_THAT(pools("A.example:8080"), ElementsAre(0));
  EXPECT_THAT(pools("a.example."), ElementsAre(0));
  EXPECT_THAT(pools("x.B.example.:80"), ElementsAre(1));
  EXPECT_THAT(pools("x.y.b.example"), ElementsAre(1));
  EXPECT_THAT(pools("b.example"), ElementsAre(2));
  EXPECT_THAT(pools(""), ElementsAre(2));
}

TEST_F(ModelReaches, AreThoseOfTheFieldsThatTheClientSends) {
  route({.path = "/v1/**", .header = {{"x-tier", "gold"}}}, {{.pool = "a"}});
  route({}, {{.pool = "b"}});
  Fields gold;
  gold.add("X-Tier", "gold");
  EXPECT_THAT(pools("x", gold), ElementsAre(0));
  EXPECT_THAT(pools("x"), ElementsAre(1));
  EXPECT_THAT(numbers(reach("x", nullptr)), ElementsAre(0, 1));
}

TEST_F(ModelReaches, DoNotComeFromRoutesOfOtherRequests) {
  route({.path = "/v1/models"}, {{.pool = "a"}});
  route({.path = "/v1/**", .method = {"GET"}}, {{.pool = "a"}});
  route({.grpc = {"inference.GRPCInferenceService"}}, {{.pool = "a"}});
  route({.path = "/v2/**"}, {{.pool = "a"}});
  EXPECT_THAT(pools(), IsEmpty());
  route({.path = "/v1/**", .method = {"GET", "POST"}}, {{.pool = "b"}});
  EXPECT_THAT(pools(), ElementsAre(1));
  EXPECT_FALSE(ModelReach(config).takes_requests(0));
  EXPECT_TRUE(ModelReach(config).takes_requests(4));
}

TEST_F(ModelReaches, ListThePoolsOfHostsThatHaveSeveral) {
  route({.host = "a.example"}, {{.pool = "a"}});
  route({.host = "b.example"}, {{.pool = "b"}});
  EXPECT_THAT(ModelReach(config).pools_to_list(), IsEmpty());
  EXPECT_FALSE(merges());

  route({.host = "*.c.example", .path = "/v1/embeddings"}, {{.pool = "b"}});
  route({.host = "*.c.example"}, {{.pool = "c"}});
  EXPECT_THAT(ModelReach(config).pools_to_list(), ElementsAre("b", "c"));
}

TEST_F(ModelReaches, ListFallbacksToo) {
  config.pools[1].fallback.pool = "c";
  route({}, {{.pool = "a"}, {.pool = "b"}});
  EXPECT_TRUE(merges());
  EXPECT_THAT(ModelReach(config).pools_to_list(), ElementsAre("a", "b", "c"));
}

TEST_F(ModelReaches, ListAPoolIfTheFileSaysSo) {
  route({}, {{.pool = "a"}});
  EXPECT_THAT(ModelReach(config).pools_to_list(), IsEmpty());
  config.routes[0].model_list = ModelListRule::merged;
  EXPECT_THAT(ModelReach(config).pools_to_list(), ElementsAre("a"));
}

TEST_F(ModelReaches, GoOnBehindRoutesThatDependOnTheBody) {
  route({.model = {"llama*", "chat"}}, {{.pool = "a"}});
  route({.prompt_tokens = TokenBounds{.min = 1000}}, {{.pool = "b"}});
  const Fields none;
  const ModelReach::Pools reached = reach("x", &none);
  EXPECT_TRUE(reached.by_body);
  EXPECT_TRUE(merges());
  EXPECT_THAT(numbers(reached), ElementsAre(0, 1));
  EXPECT_TRUE(reached.list[0].takes("llama-3"));
  EXPECT_TRUE(reached.list[0].takes("chat"));
  EXPECT_FALSE(reached.list[0].takes("chatty"));
  EXPECT_TRUE(reached.list[1].takes("anything"));

  route({}, {{.pool = "a"}});
  EXPECT_TRUE(reach("x", &none).list[0].takes("anything"));
}

TEST_F(ModelReaches, MergeNamesThatTheBackendsDoNotKnow) {
  route({}, {{.pool = "a"}});
  config.pools[0].model = "/models/llama";
  EXPECT_FALSE(merges());
  config.pools[0].models = {"chat"};
  EXPECT_TRUE(merges());
}

TEST_F(ModelReaches, OfKServeHaveNoListsButNames) {
  route({.grpc = {"inference.GRPCInferenceService"}, .model = {"bert"}}, {{.pool = "a"}});
  route({.path = "/v2/models/*/infer", .model = {"resnet"}}, {{.pool = "b"}});
  const Fields none;
  EXPECT_THAT(pools(), IsEmpty());
  EXPECT_THAT(numbers(reach("x", &none, Api::kserve)), ElementsAre(0, 1));
  EXPECT_THAT(ModelReach(config).pools_to_list(), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace evenkeel
