#include "evenkeel/inference/engine_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <ostream>

#include "evenkeel/inference/engine.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The responses of a server, recorded or taken from its source.
struct RecordedServer {
  std::string what;
  std::vector<DetectionResponse> responses;
  std::string_view engine;
  std::vector<std::string> models = {};
};

void PrintTo(const RecordedServer& seen, std::ostream* out) { *out << seen.what; }

const std::string fastapi_404 = R"({"detail":"Not Found"})";
const std::string java_404 =
    "{\n  \"code\": 404,\n  \"type\": \"ResourceNotFoundException\",\n  \"message\": "
    "\"Requested resource is not found, please refer to API document.\"\n}\n";

std::string models(const std::string& cards) {
  return R"({"object":"list","data":[)" + cards + "]}";
}

const std::vector<RecordedServer> all_seen = {
    {.what = "vLLM with a LoRA adapter",
     .responses = {{"/v1/models", 200, "uvicorn",
                    models(R"({"id":"tiny","object":"model","created":1763725000,"owned_by":"vllm",
                      "root":"./tiny","parent":null,"max_model_len":2048,"permission":[
                      {"id":"modelperm-1","allow_sampling":true,"group":null}]},
                     {"id":"sql","object":"model","owned_by":"vllm","root":"/l","parent":"tiny"})")},
                   {"/-/routes", 404, "uvicorn", fastapi_404},
                   {"/v2", 404, "uvicorn", fastapi_404}},
     .engine = "vllm",
     .models = {"tiny", "sql"}},
    {.what = "vLLM with a key",
     .responses = {{"/v1/models", 401, "uvicorn", R"({"error":"Unauthorized"})"},
                   {"/v2", 401, "uvicorn", R"({"error":"Unauthorized"})"},
                   {"/version", 200, "uvicorn", R"({"version":"0.32.0"})"},
                   {"/load", 200, "uvicorn", R"({"server_load":0})"},
                   {"/ping", 200, "uvicorn", ""}},
     .engine = "vllm"},
    {.what = "SGLang",
     .responses = {{"/v1/models", 200, "uvicorn",
                    models(R"({"id":"qwen","object":"model","created":1,"owned_by":"sglang",
                             "root":"qwen","max_model_len":32768})")},
                   {"/", 200, "uvicorn", "Ollama is running"}},
     .engine = "sglang",
     .models = {"qwen"}},
    {.what = "SGLang of which the list did not come in time",
     .responses = {{"/get_model_info", 200, "uvicorn",
                    R"({"model_path":"/m","tokenizer_path":"/m","is_generation":true,
                      "preferred_sampling_params":null,"weight_version":"default"})"},
                   {"/", 200, "uvicorn", "Ollama is running"}},
     .engine = "sglang"},
    {.what = "Triton",
     .responses = {{"/v1/models", 400, "", ""},
                   {"/-/routes", 400, "", ""},
                   {"/v2", 200, "",
                    R"({"name":"triton","version":"2.51.0","extensions":["classification",
                      "sequence","model_repository","statistics","trace","logging"]})"}},
     .engine = "triton"},
    {.what = "trtllm-serve",
     .responses = {{"/v1/models", 200, "uvicorn",
                    models(R"({"id":"TinyLlama-1.1B","object":"model","created":1,
                             "owned_by":"tensorrt_llm"})")},
                   {"/version", 200, "uvicorn", R"({"version":"1.1.0"})"}},
     .engine = "trtllm",
     .models = {"TinyLlama-1.1B"}},
    {.what = "TGI",
     .responses = {{"/v1/models", 200, "",
                    models(R"({"id":"gpt2","object":"model","created":0,"owned_by":"gpt2"})")},
                   {"/v2", 404, "", ""},
                   {"/info", 200, "",
                    R"({"model_id":"gpt2","model_sha":null,"max_input_tokens":1024,
                      "max_total_tokens":2048,"router":"text-generation-router",
                      "version":"3.3.6","docker_label":null})"}},
     .engine = "tgi",
     .models = {"gpt2"}},
    {.what = "TGI before it named its router",
     .responses = {{"/v1/models", 404, "", ""},
                   {"/info", 200, "",
                    R"({"model_id":"gpt2","max_input_length":1024,"max_total_tokens":2048})"}},
     .engine = "tgi"},
    {.what = "llama-server",
     .responses = {{"/v1/models", 200, "llama.cpp",
                    R"({"models":[{"name":"tiny.gguf","capabilities":["completion"]}],
                      "object":"list","data":[{"id":"tiny.gguf","object":"model","created":1,
                      "owned_by":"llamacpp","meta":{"n_vocab":2048,"n_params":1.5e6}}]})"}},
     .engine = "llamacpp",
     .models = {"tiny.gguf"}},
    {.what = "llama-server behind a proxy that hides its name, with a key",
     .responses = {{"/v1/models", 401, "nginx", ""},
                   {"/props", 200, "nginx",
                    R"({"default_generation_settings":{"n_ctx":4096},"total_slots":2})"}},
     .engine = "llamacpp"},
    {.what = "Ray Serve in front of vLLM",
     .responses = {{"/v1/models", 200, "uvicorn", models(R"({"id":"q","owned_by":"vllm"})")},
                   {"/-/routes", 200, "uvicorn", R"({"/":"llm_app"})"}},
     .engine = "ray",
     .models = {"q"}},
    {.what = "Ray Serve while its replicas start: the list is held back",
     .responses = {{"/-/routes", 200, "uvicorn", R"({"/llm":"default"})"}},
     .engine = "ray"},
    {.what = "Ray Serve about to leave",
     .responses = {{"/-/routes", 503, "uvicorn", "This node is being drained."}},
     .engine = "ray"},
    {.what = "Ray Serve as it starts",
     .responses = {{"/-/routes", 503, "uvicorn", "Route table is not populated yet."}},
     .engine = "ray"},
    {.what = "Ray Serve before its first application",
     .responses = {{"/v1/models", 404, "uvicorn",
                    "Path '/v1/models' not found. Ping http://.../-/routes for available routes."},
                   {"/-/routes", 200, "uvicorn", "{}"}},
     .engine = "ray"},
    {.what = "Ollama",
     .responses = {{"/v1/models", 200, "",
                    models(R"({"id":"llama3.2:latest","object":"model","created":1763000000,
                             "owned_by":"library"})")},
                   {"/-/routes", 404, "", "404 page not found"},
                   {"/version", 404, "", "404 page not found"},
                   {"/", 200, "", "Ollama is running"}},
     .engine = "ollama",
     .models = {"llama3.2:latest"}},
    {.what = "TF Serving",
     .responses = {{"/v1/models", 404, "", R"({ "error": "Malformed request: GET /v1/models" })"}},
     .engine = "tfserving"},
    {.what = "TorchServe",
     .responses = {{"/v1/models", 404, "", java_404},
                   {"/-/routes", 404, "", java_404},
                   {"/v2", 404, "", java_404},
                   {"/ping", 200, "", "{\n  \"status\": \"Healthy\"\n}\n"}},
     .engine = "torchserve"},
    {.what = "TorchServe with too few workers",
     .responses = {{"/v1/models", 404, "", java_404},
                   {"/ping", 500, "", R"({"status": "Unhealthy"})"}},
     .engine = "torchserve"},

    {.what = "a server of one's own that says Healthy",
     .responses = {{"/v1/models", 404, "uvicorn", fastapi_404},
                   {"/ping", 200, "uvicorn", R"({"status":"Healthy"})"}},
     .engine = "generic"},
    {.what = "TEI: an /info like TGI's, but it generates nothing",
     .responses = {{"/info", 200, "",
                    R"({"model_id":"BAAI/bge-large-en-v1.5","model_dtype":"float16",
                      "model_type":{"embedding":{"pooling":"cls"}},"max_batch_tokens":16384})"}},
     .engine = "generic"},
    {.what = "MLServer: KServe's protocol, not Triton",
     .responses = {{"/v1/models", 404, "uvicorn", fastapi_404},
                   {"/v2", 200, "uvicorn",
                    R"({"name":"mlserver","version":"1.7.1","extensions":[]})"}},
     .engine = "mlserver"},
    {.what = "another that speaks KServe's protocol",
     .responses = {{"/v2", 200, "",
                    R"({"name":"OpenVINO Model Server","version":"2026","extensions":[]})"}},
     .engine = "generic"},
    {.what = "LMDeploy",
     .responses = {{"/v1/models", 200, "uvicorn",
                    models(R"({"id":"internlm","owned_by":"lmdeploy"})")}},
     .engine = "generic",
     .models = {"internlm"}},
    {.what = "a gateway that answers everything alike",
     .responses = {{"/v1/models", 200, "nginx", "<html>welcome</html>"},
                   {"/-/routes", 200, "nginx", "<html>welcome</html>"},
                   {"/v2", 200, "nginx", "<html>welcome</html>"},
                   {"/version", 200, "nginx", "<html>welcome</html>"},
                   {"/load", 200, "nginx", "<html>welcome</html>"},
                   {"/", 200, "nginx", "<html>welcome</html>"}},
     .engine = "generic"},
    {.what = "an API that answers everything with the same object",
     .responses = {{"/v1/models", 200, "", R"({"status":"ok","version":"1"})"},
                   {"/-/routes", 200, "", R"({"status":"ok","version":"1"})"},
                   {"/load", 200, "", R"({"status":"ok","version":"1"})"},
                   {"/version", 200, "", R"({"status":"ok","version":"1"})"}},
     .engine = "generic"},
    {.what = "a server with a /version and nothing of vLLM's",
     .responses = {{"/version", 200, "", R"({"version":"2.0"})"}, {"/load", 404, "", ""}},
     .engine = "generic"},
    {.what = "JSON that is none, and lists that are none",
     .responses = {{"/v1/models", 200, "",
                    R"({"object":"list","data":[{"id":7,"owned_by":"vllm"}]})"},
                   {"/-/routes", 200, "", R"(["/"])"},
                   {"/v2", 200, "", R"({"name":["triton"]})"},
                   {"/load", 200, "", R"({"server_load":)"},
                   {"/version", 200, "", "null"}},
     .engine = "generic"},
    {.what = "a server that fails to list its models",
     .responses = {{"/v1/models", 500, "", models(R"({"id":"a","owned_by":"vllm"})")}},
     .engine = "generic"},
    {.what = "no responses", .responses = {}, .engine = "generic"},
};

class Detect : public testing::TestWithParam<RecordedServer> {};

TEST_P(Detect, FindsTheEngineAndTheModels) {
  const EngineIdentity identity = identify_engine(GetParam().responses);

  EXPECT_EQ(identity.engine, GetParam().engine);
  EXPECT_EQ(identity.models, GetParam().models);
  EXPECT_EQ(identity.evidence.empty(), identity.engine == "generic");
}

TEST_P(Detect, DoesNotDependOnTheOrderOfTheResponses) {
  std::vector<DetectionResponse> responses = GetParam().responses;
  std::ranges::reverse(responses);

  const EngineIdentity identity = identify_engine(responses);

  EXPECT_EQ(identity.engine, GetParam().engine);
  EXPECT_EQ(identity.models, GetParam().models);
}

INSTANTIATE_TEST_SUITE_P(Servers, Detect, testing::ValuesIn(all_seen));

TEST(IdentifyEngine, IsTestedWithAServerOfEveryEngine) {
  for (const Engine* engine : engines()) {
    EXPECT_THAT(all_seen, testing::Contains(testing::Field(&RecordedServer::engine, engine->name)));
  }
}

TEST(IdentifyEngine, KnowsALlamaServerThatStillLoadsItsModel) {
  const std::string body =
      R"({"error":{"message":"Loading model","type":"unavailable_error","code":503}})";

  const EngineIdentity identity = identify_engine({{"/v1/models", 503, "llama.cpp", body}});
  const EngineIdentity hidden = identify_engine({{"/v1/models", 503, "", body}});

  EXPECT_EQ(identity.engine, "llamacpp");
  EXPECT_TRUE(identity.loading);
  EXPECT_THAT(identity.models, IsEmpty());
  EXPECT_EQ(hidden.engine, "llamacpp");
}

TEST(IdentifyEngine, TreatsAServerThatOnlyFailsAsLoading) {
  EXPECT_TRUE(identify_engine({{"/v1/models", 503, "", ""}, {"/v2", 502, "", ""}}).loading);
  EXPECT_FALSE(identify_engine({{"/v1/models", 503, "", ""}, {"/v2", 404, "", ""}}).loading);
  EXPECT_FALSE(identify_engine({{"/v1/models", 501, "", ""}, {"/v2", 501, "", ""}}).loading);
  EXPECT_FALSE(identify_engine({{"/v1/models", 500, "", ""}}).loading);
  EXPECT_FALSE(identify_engine({}).loading);
}

TEST(IdentifyEngine, ReportsWhetherTheEngineIsKnown) {
  EXPECT_TRUE(identify_engine({{"/v1/models", 200, "", models(R"({"id":"m","owned_by":"vllm"})")}})
                  .known());
  EXPECT_TRUE(
      identify_engine({{"/v2", 200, "", R"({"name":"x","version":"1","extensions":[]})"}}).known());
  EXPECT_FALSE(identify_engine({{"/v1/models", 404, "", ""}}).known());
}

TEST(DetectionResponses, AreConclusiveUnlessTheServerFailed) {
  EXPECT_TRUE(is_conclusive({"/v2", 404, "", ""}));
  EXPECT_TRUE(is_conclusive({"/v2", 501, "", ""}));
  EXPECT_FALSE(is_conclusive({"/v2", 500, "", ""}));
  EXPECT_FALSE(is_conclusive({"/v2", 503, "", ""}));
}

TEST(IdentifyEngine, ReportsThatModelsRequireAnApiKey) {
  EXPECT_TRUE(
      identify_engine({{"/v1/models", 401, "", R"({"error":"Unauthorized"})"}}).requires_api_key);
  EXPECT_FALSE(identify_engine({{"/v1/models", 404, "", ""}}).requires_api_key);
}

TEST(IdentifyEngine, DetectsKserveOnAnUnknownEngine) {
  const auto speaks = [](const std::string& body) {
    return identify_engine({{"/v2", 200, "", body}}).kserve;
  };
  EXPECT_TRUE(speaks(R"({"name":"mlserver","version":"1.7.1","extensions":[]})"));
  EXPECT_FALSE(speaks(R"({"name":"registry"})"));
  EXPECT_FALSE(identify_engine({{"/v2", 404, "", ""}}).kserve);
}

TEST(IdentifyEngine, ListsAModelOnce) {
  const EngineIdentity identity = identify_engine(
      {{"/v1/models", 200, "", models(R"({"id":"a"},{"id":"b"},{"id":"a"},{"id":""})")}});

  EXPECT_THAT(identity.models, ElementsAre("a", "b"));
}

TEST(IdentifyEngine, TakesLittleTimeForAMillionBytesOfModels) {
  std::string cards;
  for (int i = 0; i < 60'000; ++i) {
    cards += R"({"id":")" + std::to_string(i) + R"("},)";
  }
  const auto began = std::chrono::steady_clock::now();
  const EngineIdentity identity =
      identify_engine({{"/v1/models", 200, "", models(cards + R"({"id":"last"})")}});

  EXPECT_EQ(identity.models.size(), 1000u);
  EXPECT_EQ(identity.models.back(), "999");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
}

TEST(ProbeRounds, HaveNoEffectOnTheServer) {
  for (const auto round : detection_rounds()) {
    for (const std::string_view path : round) {
      EXPECT_FALSE(path.starts_with("/metrics")) << path;
      EXPECT_FALSE(path.starts_with("/health")) << path;
    }
  }
}

}  // namespace
}  // namespace evenkeel
