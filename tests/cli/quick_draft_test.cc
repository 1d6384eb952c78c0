#include "cli/quick_draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "evenkeel/config/load.h"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Outcome = DetectionResult::Outcome;

const DraftOptions options{
    .listen = {"0.0.0.0", 8080}, .admin = {"127.0.0.1", 9901}, .picker = "round-robin"};

/// A server on "gpu:PORT" that answered.
DetectedServer server(std::uint16_t port, EngineIdentity identity) {
  return {.url = "http://gpu:" + std::to_string(port),
          .address = {"gpu", port},
          .result = {.outcome = Outcome::answered, .identity = std::move(identity)}};
}

DetectedServer vllm(std::uint16_t port, std::vector<std::string> models) {
  return server(port, {.engine = "vllm", .evidence = "a sign", .models = std::move(models)});
}

DetectedServer silent(std::uint16_t port) {
  DetectedServer probed = server(port, {});
  probed.result = {.outcome = Outcome::silent, .reason = "Connection refused"};
  return probed;
}

DetectedServer engine(std::uint16_t port, std::string_view name, std::vector<std::string> models) {
  return server(port, {.engine = name, .evidence = "a sign", .models = std::move(models)});
}

const PoolConfig& pool_of(const Draft& draft) {
  EXPECT_EQ(draft.config.pools.size(), 1u);
  return draft.config.pools.at(0);
}

std::vector<std::string> backends_of(const PoolConfig& pool) {
  std::vector<std::string> addresses;
  for (const BackendConfig& backend : pool.backends) {
    addresses.push_back(to_string(backend.address));
  }
  return addresses;
}

std::vector<std::string> backends_of(const Draft& draft) { return backends_of(pool_of(draft)); }

/// The pool to which requests for this model go; nothing: no route matches.
const PoolConfig* pool_for(const Draft& draft, const std::string& model) {
  for (const RouteConfig& route : draft.config.routes) {
    if (std::ranges::find(route.match.model, model) == route.match.model.end()) continue;
    return &*std::ranges::find(draft.config.pools, route.targets.at(0).pool, &PoolConfig::name);
  }
  return nullptr;
}

std::vector<std::string> backends_for(const Draft& draft, const std::string& model) {
  const PoolConfig* const pool = pool_for(draft, model);
  return pool == nullptr ? std::vector<std::string>{} : backends_of(*pool);
}

TEST(QuickDraft, PutsServersOfOneEngineIntoOnePool) {
  const Draft draft = draft_config(options, {vllm(1, {"meta/Llama-3"}), vllm(2, {"meta/Llama-3"})});

  EXPECT_EQ(pool_of(draft).name, "Llama-3");
  EXPECT_EQ(pool_of(draft).engine, "vllm");
  EXPECT_EQ(pool_of(draft).picker.name, "round-robin");
  EXPECT_THAT(pool_of(draft).models, ElementsAre("meta/Llama-3"));
  EXPECT_THAT(backends_of(draft), ElementsAre("gpu:1", "gpu:2"));
  EXPECT_EQ(draft.config.listeners.at(0).address, options.listen);
  EXPECT_EQ(draft.config.admin.address, options.admin);
  EXPECT_THAT(draft.notes, ElementsAre("http://gpu:1: vllm (a sign), serves meta/Llama-3",
                                       "http://gpu:2: vllm (a sign), serves meta/Llama-3"));
}

TEST(QuickDraft, TakesNamesOfModelsLiterally) {
  const Draft draft = draft_config(options, {vllm(1, {"a*", "b\\c"}), vllm(2, {"ab"})});

  EXPECT_THAT(backends_for(draft, "a\\*"), ElementsAre("gpu:1"));
  EXPECT_THAT(backends_for(draft, "b\\\\c"), ElementsAre("gpu:1"));
  EXPECT_THAT(backends_for(draft, "ab"), ElementsAre("gpu:2"));
  EXPECT_THAT(draft.config.pools.at(0).models, ElementsAre("a*", "b\\c"));
}

TEST(QuickDraft, LeavesOutModelsThatNoFileCanName) {
  const std::string longest(256, 'm');
  const Draft draft = draft_config(
      options, {vllm(1, {longest, longest + "m", "", "a\x1b", "\xff"}), vllm(2, {"b"})});

  EXPECT_THAT(draft.config.pools.at(0).models, ElementsAre(longest));
  EXPECT_THAT(draft.notes,
              Contains(StartsWith("warning: 4 of the models of http://gpu:1 left out")));
  EXPECT_TRUE(read_config(print_config(draft.config, false), "draft", {}).ok());
}

TEST(QuickDraft, RoundTripsThroughThePrinter) {
  const std::vector<std::vector<DetectedServer>> pools = {
      {vllm(1, {"a"})},
      {vllm(1, {"${HOME}", "yes", "1.5", "a: b # c"})},
      {server(1, {.engine = "ray", .evidence = "a sign"}), silent(2)},
      {server(1, {})},
      {engine(1, "sglang", {"a"})},
      {engine(1, "sglang", {"a"}), vllm(2, {"a"})},
      {vllm(1, {"a", "b"}), vllm(2, {"b"}), silent(3)},
      {engine(1, "ollama", {"a:latest", "x/y"}), engine(2, "triton", {}), vllm(3, {"z/y", "q: *"})},
  };
  for (const auto& servers : pools) {
    const Draft draft = draft_config(options, servers);

    const LoadResult read = read_config(print_config(draft.config, false), "draft", {});

    EXPECT_TRUE(read.ok()) << render_problems(read.problems, read.text);
    EXPECT_EQ(read.config, draft.config);
  }
}

TEST(QuickDraft, KeepsAnUnreachableServerAsOneOfTheSameEngine) {
  const Draft draft = draft_config(options, {silent(1), vllm(2, {"a"})});

  EXPECT_EQ(pool_of(draft).engine, "vllm");
  EXPECT_THAT(pool_of(draft).models, ElementsAre("a"));
  EXPECT_THAT(backends_of(draft), ElementsAre("gpu:1", "gpu:2"));
  EXPECT_THAT(draft.notes, Contains(AllOf(StartsWith("warning: http://gpu:1 does not answer"),
                                          HasSubstr("Connection refused"))));
}

TEST(QuickDraft, KeepsAFailingServerAsOneOfTheSameEngine) {
  const Draft draft = draft_config(options, {server(1, {.loading = true}), vllm(2, {"a"})});

  EXPECT_EQ(pool_of(draft).engine, "vllm");
  EXPECT_THAT(backends_of(draft), ElementsAre("gpu:1", "gpu:2"));
}

TEST(QuickDraft, TrustsTheEngineOfALoadingServer) {
  const Draft draft = draft_config(
      options, {server(1, {.engine = "llamacpp", .evidence = "a sign", .loading = true})});

  EXPECT_EQ(pool_of(draft).engine, "llamacpp");
  EXPECT_THAT(draft.notes, ElementsAre(HasSubstr("still loading its model")));
}

TEST(QuickDraft, DetectsEachServerOfAPoolOfMixedEngines) {
  const Draft draft = draft_config(options, {vllm(1, {"a"}), engine(2, "sglang", {"a"})});

  EXPECT_EQ(pool_of(draft).engine, "auto");
  EXPECT_EQ(pool_of(draft).name, "a");
  EXPECT_THAT(backends_of(draft), ElementsAre("gpu:1", "gpu:2"));
  EXPECT_THAT(draft.notes, Contains(HasSubstr("pool a has `engine: auto`")));
}

TEST(QuickDraft, LeavesTheTimesOfAnEngineAtTheirDefaults) {
  const Draft draft = draft_config(options, {engine(1, "sglang", {"a"})});

  EXPECT_THAT(print_config(draft.config, false), Not(HasSubstr("timeout")));
}

TEST(QuickDraft, SendsEachModelToAllServersThatHaveIt) {
  const Draft draft = draft_config(
      options, {vllm(1, {"base", "lora"}), vllm(2, {"base"}), vllm(3, {"other", "base"})});

  EXPECT_THAT(backends_for(draft, "base"), ElementsAre("gpu:1", "gpu:2", "gpu:3"));
  EXPECT_THAT(backends_for(draft, "lora"), ElementsAre("gpu:1"));
  EXPECT_THAT(backends_for(draft, "other"), ElementsAre("gpu:3"));
  EXPECT_THAT(draft.notes,
              AllOf(Contains("pool base: base on http://gpu:1, http://gpu:2, http://gpu:3"),
                    Contains(StartsWith("http://gpu:1 is in 2 pools, "))));
}

TEST(QuickDraft, PutsServersOfTheSameModelsIntoOnePool) {
  const Draft draft = draft_config(
      options, {vllm(1, {"org/a", "b"}), engine(2, "sglang", {"c"}), vllm(3, {"b", "org/a"})});

  ASSERT_EQ(draft.config.pools.size(), 2u);
  EXPECT_EQ(draft.config.pools[0].name, "a");
  EXPECT_EQ(draft.config.pools[0].engine, "vllm");
  EXPECT_THAT(draft.config.pools[0].models, ElementsAre("org/a", "b"));
  EXPECT_THAT(backends_of(draft.config.pools[0]), ElementsAre("gpu:1", "gpu:3"));
  EXPECT_EQ(draft.config.pools[1].name, "c");
  EXPECT_EQ(draft.config.pools[1].engine, "sglang");
  EXPECT_EQ(draft.config.pools[1].health.model, ModelCheck::off);
  EXPECT_EQ(pool_for(draft, "b"), &draft.config.pools[0]);
  EXPECT_THAT(draft.notes, Not(Contains(StartsWith("warning"))));
}

TEST(QuickDraft, TellsPoolsOfTheSameNameApart) {
  const std::string longest(64, 'm');
  const Draft draft = draft_config(
      options, {vllm(1, {"a/x"}), vllm(2, {"b/x"}), vllm(3, {longest}), vllm(4, {"b/" + longest})});

  EXPECT_EQ(pool_for(draft, "a/x")->name, "x");
  EXPECT_EQ(pool_for(draft, "b/x")->name, "x-2");
  EXPECT_EQ(pool_for(draft, "b/" + longest)->name, std::string(62, 'm') + "-2");
}

TEST(QuickDraft, ChecksForModelsWhereAServerMayLackThem) {
  const Draft draft = draft_config(options, {vllm(1, {"a"}), vllm(2, {"b"}), silent(3)});

  EXPECT_THAT(backends_for(draft, "a"), ElementsAre("gpu:1", "gpu:3"));
  EXPECT_THAT(backends_for(draft, "b"), ElementsAre("gpu:2", "gpu:3"));
  for (const PoolConfig& pool : draft.config.pools) {
    EXPECT_EQ(pool.health.model, ModelCheck::required);
    EXPECT_EQ(pool.engine, "vllm");
  }
  EXPECT_THAT(draft.notes,
              Contains(StartsWith("warning: the models of http://gpu:3 are unknown;")));
}

TEST(QuickDraft, LetsAServerOfUnknownEngineRunAnyOfThem) {
  const Draft draft =
      draft_config(options, {vllm(1, {"a"}), engine(2, "sglang", {"b"}), silent(3)});

  EXPECT_EQ(pool_for(draft, "a")->engine, "auto");
  EXPECT_EQ(pool_for(draft, "b")->engine, "auto");
}

TEST(QuickDraft, NamesTheKeyThatAServerOfUnknownModelsNeeds) {
  const Draft draft = draft_config(
      options, {vllm(1, {"a"}), vllm(2, {"b"}),
                server(3, {.engine = "vllm", .evidence = "a sign", .requires_api_key = true})});

  EXPECT_THAT(draft.notes,
              Contains(AllOf(StartsWith("warning: the models of http://gpu:3 are unknown;"),
                             HasSubstr("api_key_file"))));
}

TEST(QuickDraft, RoutesNamesOfOllamaWithoutTheirTag) {
  const Draft draft =
      draft_config(options, {engine(1, "ollama", {"llama3.2:latest"}), vllm(2, {"b:latest"})});

  EXPECT_THAT(backends_for(draft, "llama3.2"), ElementsAre("gpu:1"));
  EXPECT_THAT(backends_for(draft, "llama3.2:latest"), ElementsAre("gpu:1"));
  EXPECT_THAT(pool_for(draft, "llama3.2")->models, ElementsAre("llama3.2:latest"));
  EXPECT_EQ(pool_for(draft, "b"), nullptr);
}

TEST(QuickDraft, AcceptsAServerThatListsNoModels) {
  const Draft draft = draft_config(
      options, {server(1, {.engine = "vllm", .evidence = "a sign", .requires_api_key = true}),
                vllm(2, {"a"})});

  EXPECT_THAT(pool_of(draft).models, ElementsAre("a"));
  EXPECT_THAT(draft.notes, Contains(HasSubstr("requires an API key")));
  EXPECT_THAT(draft.notes, Not(Contains(StartsWith("warning"))));
}

TEST(QuickDraft, NamesThePoolAfterItsFirstModel) {
  const auto name = [](const std::string& model) {
    return pool_of(draft_config(options, {vllm(1, {model})})).name;
  };

  EXPECT_EQ(name("llama3.2:latest"), "llama3.2-latest");
  EXPECT_EQ(name("/models/tiny.gguf"), "tiny.gguf");
  EXPECT_EQ(name("./tiny/"), "tiny");
  EXPECT_EQ(name("-_x"), "x");
  EXPECT_EQ(name("///"), "vllm");
  EXPECT_EQ(name("\xc3\xa9"), "vllm");
  EXPECT_EQ(name(std::string(100, 'm')), std::string(64, 'm'));
  EXPECT_EQ(pool_of(draft_config(options, {vllm(1, {"a", "b"})})).name, "a");
  EXPECT_EQ(pool_of(draft_config(options, {vllm(1, {})})).name, "vllm");
}

TEST(QuickDraft, LogsToStderr) {
  const Draft draft = draft_config(options, {vllm(1, {"a"})});

  EXPECT_EQ(draft.config.access_log.path, "stderr");
}

}  // namespace
}  // namespace evenkeel
