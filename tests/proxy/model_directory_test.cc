#include "proxy/model_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace evenkeel {
namespace {

using testing::HasSubstr;

class ModelDirectories : public testing::Test {
 protected:
  ModelDirectories() {
    for (const char* name : {"a", "b"}) config.pools.push_back({.name = name});
    config.routes.push_back(
        {.match = {.path = "/v1/**"}, .targets = {{.pool = "a"}, {.pool = "b"}}});
  }
  void serve(const std::string& pool, PoolModels models) {
    pools[pool] = std::make_shared<const PoolModels>(std::move(models));
    catalog = std::make_shared<const ModelCatalog>(pools);
  }
  static PoolModels models(std::vector<ModelCard> cards) {
    return {.available = true, .known = true, .listed = true, .models = std::move(cards)};
  }
  Request request(std::string_view path) { return {.method = "GET", .path = path}; }
  bool answers(std::string_view path, std::optional<std::size_t> route = 0) {
    return ModelDirectory(config, catalog).answers(request(path), route);
  }
  std::string answer(Request asked) {
    ModelDirectory directory(config, catalog);
    auto answered = directory.handle(asked);
    auto response = answered.take();
    if (!response) return to_string(response.error().fault);
    EXPECT_EQ(response->fields.value("content-type"), "application/json");
    auto chunk = response->body->read();
    return std::string(chunk.take()->bytes);
  }
  std::string answer(std::string_view path) { return answer(request(path)); }
  std::string answer_to_anthropic(std::string_view path) {
    Request asked = request(path);
    asked.fields.add("anthropic-version", "2023-06-01");
    return answer(std::move(asked));
  }

  Config config{.pools = {}};
  ModelCatalog::Pools pools;
  std::shared_ptr<const ModelCatalog> catalog;
};

TEST_F(ModelDirectories, AreForReadsOfTheListAndOfOneModel) {
  const auto is_for = [](std::string_view method, std::string_view path) {
    return ModelDirectory::is_for({.method = method, .path = path});
  };
  for (const char* path : {"/v1/models", "/v1/models?limit=2", "/v1/models/", "/v1//models/a/b",
                           "/v1/x/../models", "/v1/models/a%2Fb", "/v1/%6dodels"}) {
    EXPECT_TRUE(is_for("GET", path)) << path;
    EXPECT_TRUE(is_for("HEAD", path)) << path;
    EXPECT_FALSE(is_for("POST", path)) << path;
    EXPECT_FALSE(is_for("OPTIONS", path)) << path;
    EXPECT_FALSE(is_for("DELETE", path)) << path;
  }
  for (const char* path :
       {"/v1/modelsx", "/v1", "/v2/models", "/models", "/v1/models/../x", "/v1/models/%", "*"}) {
    EXPECT_FALSE(is_for("GET", path)) << path;
  }
}

TEST_F(ModelDirectories, ListTheModelsOfAllPoolsInTheOrderOfTheFile) {
  serve("b", models({{.id = "small", .owner = "vllm", .created = 7}, {.id = "tiny"}}));
  serve("a", models({{.id = "z \"x\"", .details = "\"max_model_len\":4096"}}));
  ASSERT_TRUE(answers("/v1/models"));
  EXPECT_EQ(
      answer("/v1/models"),
      R"({"object":"list","data":[)"
      R"({"id":"z \"x\"","object":"model","created":0,"owned_by":"evenkeel","max_model_len":4096},)"
      R"({"id":"small","object":"model","created":7,"owned_by":"vllm"},)"
      R"({"id":"tiny","object":"model","created":0,"owned_by":"evenkeel"}]})");
}

TEST_F(ModelDirectories, ListAModelOfTwoPoolsOnceWithoutItsDetails) {
  serve("a", models({{.id = "m", .owner = "vllm", .details = "\"max_model_len\":4096"}}));
  serve("b", models({{.id = "m", .owner = "sglang", .details = "\"max_model_len\":8192"}}));
  EXPECT_EQ(
      answer("/v1/models"),
      R"({"object":"list","data":[{"id":"m","object":"model","created":0,"owned_by":"vllm"}]})");
  EXPECT_EQ(answer("/v1/models/m"), R"({"id":"m","object":"model","created":0,"owned_by":"vllm"})");
}

TEST_F(ModelDirectories, GiveOneModelWhateverItsNameHolds) {
  serve("a", models({{.id = "meta-llama/Llama 3"}}));
  serve("b", models({}));
  const std::string card =
      R"({"id":"meta-llama/Llama 3","object":"model","created":0,"owned_by":"evenkeel"})";
  EXPECT_EQ(answer("/v1/models/meta-llama/Llama%203"), card);
  EXPECT_EQ(answer("/v1/models/meta-llama%2FLlama%203?x=y"), card);
  EXPECT_EQ(answer("/v1/models/meta-llama%2fLlama"), "model_not_found");
  EXPECT_EQ(answer("/v1/models/%25"), "model_not_found");
}

TEST_F(ModelDirectories, HaveAnthropicsShapeForItsClients) {
  serve("a", models({{.id = "m", .created = 1'700'000'000}, {.id = "n"}}));
  EXPECT_EQ(
      answer_to_anthropic("/v1/models"),
      R"({"data":[{"type":"model","id":"m","display_name":"m","created_at":"2023-11-14T22:13:20Z"},)"
      R"({"type":"model","id":"n","display_name":"n","created_at":"1970-01-01T00:00:00Z"}],)"
      R"("has_more":false,"first_id":"m","last_id":"n"})");
  EXPECT_EQ(answer_to_anthropic("/v1/models/n"),
            R"({"type":"model","id":"n","display_name":"n","created_at":"1970-01-01T00:00:00Z"})");
  serve("a", models({}));
  EXPECT_EQ(answer_to_anthropic("/v1/models"),
            R"({"data":[],"has_more":false,"first_id":null,"last_id":null})");
}

TEST_F(ModelDirectories, LeaveTheAnswerToTheOnlyPool) {
  serve("a", models({{.id = "m"}}));
  config.routes[0].targets.pop_back();
  EXPECT_FALSE(answers("/v1/models"));
  config.routes[0].model_list = ModelListRule::merged;
  EXPECT_TRUE(answers("/v1/models"));
}

TEST_F(ModelDirectories, LeaveTheAnswerToABackendIfTheFileSaysSo) {
  serve("a", models({{.id = "m"}}));
  config.routes[0].model_list = ModelListRule::forward;
  EXPECT_FALSE(answers("/v1/models"));
}

TEST_F(ModelDirectories, LeaveTheAnswerToARouteThatIsForNothingElse) {
  serve("a", models({{.id = "m"}}));
  config.routes.push_back({.match = {.path = "/v1/models/**"}, .targets = {{.pool = "a"}}});
  EXPECT_FALSE(answers("/v1/models", 1));
  EXPECT_TRUE(answers("/v1/models", 0));
}

TEST_F(ModelDirectories, LeaveTheAnswerToABackendWhileNothingIsKnown) {
  EXPECT_FALSE(answers("/v1/models"));  // no catalog yet
  serve("a", {.available = true});
  serve("b", {.available = true});
  EXPECT_FALSE(answers("/v1/models"));
  config.routes[0].model_list = ModelListRule::merged;
  EXPECT_TRUE(answers("/v1/models"));
  EXPECT_EQ(answer("/v1/models"), R"({"object":"list","data":[]})");
}

TEST_F(ModelDirectories, LeaveTheAnswerToABackendThatMayKnowAModel) {
  serve("a", models({{.id = "m"}}));
  serve("b", {.available = true, .known = false});
  EXPECT_TRUE(answers("/v1/models"));
  EXPECT_TRUE(answers("/v1/models/m"));
  EXPECT_FALSE(answers("/v1/models/other"));
  serve("b", models({}));
  EXPECT_TRUE(answers("/v1/models/other"));
}

TEST_F(ModelDirectories, LeaveTheAnswerToAnEngineWithAnApiOfItsOwn) {
  serve("a", models({{.id = "m"}}));
  serve("b", {.available = true, .known = true, .own_api = true, .models = {{.id = "n"}}});
  EXPECT_FALSE(answers("/v1/models/n"));
}

TEST_F(ModelDirectories, AnswerWhereNoRouteWould) {
  EXPECT_TRUE(answers("/v1/models", std::nullopt));
  config.routes[0].match.path = "/v2/**";
  EXPECT_FALSE(answers("/v1/models", std::nullopt));
}

TEST_F(ModelDirectories, ListTheFallbackOfAPoolThatIsOut) {
  config.pools.push_back({.name = "c"});
  config.pools[1].fallback.pool = "c";
  serve("a", models({{.id = "m"}}));
  serve("b", models({{.id = "n"}}));
  serve("c", models({{.id = "o"}}));
  EXPECT_THAT(answer("/v1/models"), HasSubstr("\"n\""));
  serve("b", {.available = false, .known = true});
  EXPECT_THAT(answer("/v1/models"), HasSubstr("\"o\""));
}

TEST_F(ModelDirectories, ListOnlyWhatARouteTakesToItsPool) {
  config.routes = {{.match = {.model = {"llama*"}}, .targets = {{.pool = "a"}}},
                   {.match = {.model = {"chat", "gpt-*"}}, .targets = {{.pool = "b"}}}};
  config.pools[1].model = "/models/x";
  serve("a", models({{.id = "llama-1"}, {.id = "qwen"}}));
  serve("b", models({{.id = "/models/x", .owner = "vllm"}}));
  ASSERT_TRUE(answers("/v1/models", std::nullopt));
  EXPECT_EQ(answer("/v1/models"),
            R"({"object":"list","data":[)"
            R"({"id":"llama-1","object":"model","created":0,"owned_by":"evenkeel"},)"
            R"({"id":"chat","object":"model","created":0,"owned_by":"vllm"}]})");
  EXPECT_EQ(answer("/v1/models/qwen"), "model_not_found");
  serve("b", {.available = false, .known = true});
  EXPECT_EQ(answer("/v1/models/chat"), "model_not_found");
}

TEST_F(ModelDirectories, ListWhatRoutesNameWhileTheListOfAPoolIsNotKnown) {
  config.routes = {{.match = {.model = {"alpha", "gpt-*"}}, .targets = {{.pool = "a"}}},
                   {.match = {.model = {"beta"}}, .targets = {{.pool = "b"}}}};
  serve("a", {.available = true});
  serve("b", models({{.id = "beta", .owner = "vllm"}}));
  const std::string alpha = R"({"id":"alpha","object":"model","created":0,"owned_by":"evenkeel"})";
  ASSERT_TRUE(answers("/v1/models", std::nullopt));
  EXPECT_THAT(answer("/v1/models"), HasSubstr(alpha));
  EXPECT_TRUE(answers("/v1/models/alpha", std::nullopt));
  EXPECT_EQ(answer("/v1/models/alpha"), alpha);

  serve("a", models({{.id = "gpt-1"}}));
  EXPECT_EQ(answer("/v1/models/alpha"), "model_not_found");
  serve("a", {.available = false});
  EXPECT_EQ(answer("/v1/models/alpha"), "model_not_found");
}

TEST_F(ModelDirectories, NameModelsOfRoutesToo) {
  config.routes = {{.match = {.model = {"resnet-50", "bert*"}}, .targets = {{.pool = "a"}}}};
  serve("a", {.available = true});
  const ModelDirectory directory(config, catalog);
  EXPECT_THAT(directory.not_found(request("/v2/models/resnet50/infer"), "resnet50").detail,
              HasSubstr("Did you mean `resnet-50`?"));
}

TEST_F(ModelDirectories, NameOnlyModelsThatTheClientCanReach) {
  config.routes.insert(config.routes.begin(),
                       {.match = {.host = "private"}, .targets = {{.pool = "b"}}});
  config.routes[1].targets = {{.pool = "a"}};
  serve("a", models({{.id = "model-1"}}));
  serve("b", models({{.id = "model-2"}}));
  const ModelDirectory directory(config, catalog);
  Request asked = request("/v1/chat/completions");
  EXPECT_THAT(directory.not_found(asked, "model-0").detail, HasSubstr("`model-1`?"));
  asked.authority = "private";
  EXPECT_THAT(directory.not_found(asked, "model-0").detail, HasSubstr("`model-2`?"));
}

}  // namespace
}  // namespace evenkeel
