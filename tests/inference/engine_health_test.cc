#include "evenkeel/inference/engine_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

namespace evenkeel {

void PrintTo(Readiness readiness, std::ostream* out) { *out << static_cast<int>(readiness); }

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A response, recorded or taken from the source of the engine.
struct HealthCase {
  std::string what;
  std::string_view engine;
  int status;
  std::string body;
  Readiness means;
};

void PrintTo(const HealthCase& health_case, std::ostream* out) { *out << health_case.what; }

class HealthResponses : public testing::TestWithParam<HealthCase> {};

TEST_P(HealthResponses, MeanWhatTheEngineMeans) {
  const HealthCase& health_case = GetParam();
  EXPECT_EQ(read_health(engine_named(health_case.engine), health_case.status, health_case.body),
            health_case.means);
}

INSTANTIATE_TEST_SUITE_P(
    Engines, HealthResponses,
    testing::Values(
        HealthCase{"vLLM is up", "vllm", 200, "", Readiness::ready},
        HealthCase{"vLLM's engine is dead", "vllm", 503, "", Readiness::not_ready},
        HealthCase{"SGLang starts, or shuts down", "sglang", 503, "", Readiness::not_ready},
        HealthCase{"Triton loads a model", "triton", 400, "", Readiness::not_ready},
        HealthCase{"Triton shuts down", "triton", 503, R"({"error":"Server exiting"})",
                   Readiness::not_ready},
        HealthCase{"MLServer loads a model", "mlserver", 400, "", Readiness::not_ready},
        HealthCase{"400 is not a health status of vLLM", "vllm", 400, "", Readiness::failing},
        HealthCase{"llama.cpp loads its model", "llamacpp", 503,
                   R"({"error":{"message":"Loading model","type":"unavailable_error","code":503}})",
                   Readiness::loading},
        HealthCase{"llama.cpp is up", "llamacpp", 200, R"({"status":"ok"})", Readiness::ready},
        HealthCase{"TorchServe lacks workers", "torchserve", 500,
                   "{\n  \"status\": \"Unhealthy\"\n}\n", Readiness::not_ready},
        HealthCase{"500 is not a health status of TGI", "tgi", 500, "", Readiness::failing},
        HealthCase{"TGI has a broken shard", "tgi", 503,
                   R"({"error":"unhealthy","error_type":"healthcheck"})", Readiness::not_ready},
        HealthCase{"Ray drains a node", "ray", 503, "This node is being drained.",
                   Readiness::not_ready},
        HealthCase{"an unknown path", "generic", 404, "", Readiness::failing},
        HealthCase{"a redirect is not health", "generic", 302, "", Readiness::failing}));

TEST(ModelReadiness, OfKserveIsItsStatusAndItsBody) {
  const auto says = [](int status, const std::string& body) {
    return read_model(ModelListing::kserve, status, body);
  };
  EXPECT_EQ(says(200, ""), Readiness::ready);
  EXPECT_EQ(says(200, R"({"name":"m","ready":true})"), Readiness::ready);
  EXPECT_EQ(says(200, R"({"name":"m","ready":false})"), Readiness::not_ready);
  EXPECT_EQ(says(200, R"({"name":)"), Readiness::failing);
  EXPECT_EQ(says(400, R"({"error":"Model version not ready"})"), Readiness::not_ready);
  EXPECT_EQ(says(404, R"({"error":"Model m not found"})"), Readiness::model_missing);
  EXPECT_EQ(says(500, ""), Readiness::failing);
}

TEST(ModelReadiness, OfTfServingNeedsOneVersionThatIsAvailable) {
  const auto says = [](const std::string& body) {
    return read_model(ModelListing::tfserving, 200, body);
  };
  const auto version = [](const std::string& number, const std::string& state) {
    return R"({"version":")" + number + R"(","state":")" + state +
           R"(","status":{"error_code":"OK","error_message":""}})";
  };
  const auto versions = [](const std::string& all) {
    return R"({"model_version_status":[)" + all + "]}";
  };
  EXPECT_EQ(says(versions(version("1", "AVAILABLE"))), Readiness::ready);
  EXPECT_EQ(says(versions(version("2", "LOADING") + "," + version("1", "AVAILABLE"))),
            Readiness::ready);
  EXPECT_EQ(says(versions(version("2", "LOADING") + "," + version("1", "END"))),
            Readiness::loading);
  EXPECT_EQ(says(versions(version("1", "END"))), Readiness::not_ready);
  EXPECT_EQ(says(versions("")), Readiness::not_ready);
  EXPECT_EQ(says("Healthy"), Readiness::failing);
}

TEST(ModelReadiness, OfTorchServeNeedsAWorkerWhateverItsPingSays) {
  const auto says = [](const std::string& workers) {
    return read_model(ModelListing::torchserve, 200,
                      R"([{"modelName":"m","minWorkers":1,"maxWorkers":1,"workers":)" + workers +
                          R"(,"jobQueueStatus":{"remainingCapacity":100}}])");
  };
  EXPECT_EQ(says(R"([{"id":"9000","status":"READY","gpu":false}])"), Readiness::ready);
  EXPECT_EQ(says(R"([{"id":"9000","status":"UNLOADING"}])"), Readiness::loading);
  EXPECT_EQ(says("[]"), Readiness::loading);
  EXPECT_EQ(read_model(ModelListing::torchserve, 200, "{}"), Readiness::failing);
  EXPECT_EQ(read_model(ModelListing::torchserve, 404, R"({"code":404})"), Readiness::model_missing);
}

TEST(ModelPaths, EscapeWhatAPathCannotHoldAndLeaveSlashes) {
  EXPECT_EQ(model_path(ModelListing::kserve, "org/a model?"), "/v2/models/org/a%20model%3F/ready");
  EXPECT_EQ(model_path(ModelListing::tfserving, "m"), "/v1/models/m");
  EXPECT_EQ(model_path(ModelListing::torchserve, "m"), "/models/m");
  EXPECT_EQ(model_path(ModelListing::openai, "m"), "/v1/models");
}

TEST(ModelLists, AreThoseOfOpenAi) {
  EXPECT_THAT(*read_models(R"({"object":"list","data":[{"id":"a"},{"id":"b","owned_by":null}]})"),
              ElementsAre("a", "b"));
  EXPECT_TRUE(read_models(R"({"data":[]})")->empty());
  EXPECT_FALSE(read_models(R"({"data":[{"id":"","parent":"a"},{"parent":"a"}]})"));
  EXPECT_FALSE(read_models("ok"));
  EXPECT_FALSE(read_models(R"({"models":[]})"));
}

TEST(ModelLists, OfOllamaMatchWithoutTheirTag) {
  EXPECT_TRUE(lists_model(engine_named("ollama"), {"llama3:latest"}, "llama3"));
  EXPECT_FALSE(lists_model(engine_named("ollama"), {"llama3:70b"}, "llama3"));
  EXPECT_FALSE(lists_model(engine_named("vllm"), {"llama3:latest"}, "llama3"));
  EXPECT_TRUE(lists_model(engine_named("vllm"), {"a", "b"}, "b"));
  EXPECT_FALSE(lists_model(engine_named("vllm"), {}, "b"));
}

TEST(Tokens, AreRequestedOneAtATime) {
  EXPECT_THAT(token_probe_request(TokenProbe::completion, "a\"b").body,
              HasSubstr(R"("model":"a\"b","prompt":"1","max_tokens":1)"));
  EXPECT_EQ(token_probe_request(TokenProbe::kserve, "m").path, "/v2/models/m/generate");
}

TEST(Tokens, AreThereOnlyIfTheResponseHasOne) {
  const auto completion = [](const std::string& body, int status = 200) {
    return contains_token(TokenProbe::completion, status, body);
  };
  EXPECT_TRUE(completion(R"({"choices":[{"index":0,"text":" a","finish_reason":"length"}]})"));
  EXPECT_TRUE(completion(R"({"choices":[{"text":"","finish_reason":"stop"}]})"));
  EXPECT_FALSE(completion(R"({"choices":[{"text":"","finish_reason":"abort"}]})"));
  EXPECT_FALSE(completion(R"({"choices":[]})"));
  EXPECT_FALSE(completion(R"({"error":{"message":"boom"}})"));
  EXPECT_FALSE(completion(R"({"choices":[{"text":"a"}]})", 500));
  EXPECT_FALSE(completion("<html>"));

  EXPECT_TRUE(contains_token(TokenProbe::kserve, 200, R"({"text_output":"a"})"));
  EXPECT_FALSE(contains_token(TokenProbe::kserve, 200, R"({"error":"no such model"})"));
}

TEST(Sleep, IsWhatItSays) {
  EXPECT_TRUE(reports_sleeping(200, R"({"is_sleeping":true})"));
  EXPECT_FALSE(reports_sleeping(200, R"({"is_sleeping":false})"));
  EXPECT_FALSE(reports_sleeping(404, R"({"detail":"Not Found"})"));
  EXPECT_FALSE(reports_sleeping(200, "true"));
}

}  // namespace
}  // namespace evenkeel
