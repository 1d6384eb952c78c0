#include "cli/quick_draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evenkeel/config/load.h"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using Outcome = DetectionResult::Outcome;

const DraftOptions options{
    .listen = {"0.0.0.0", 8080}, .admin = {"127.0.0.1", 9901}, .picker = "round-robin"};

/// A server on "gpu:PORT" that answered.
ProbedServer server(std::uint16_t port, EngineIdentity identity) {
  return {.url = "http://gpu:" + std::to_string(port),
          .address = {"gpu", port},
          .result = {.outcome = Outcome::answered, .identity = std::move(identity)}};
}

ProbedServer vllm(std::uint16_t port, std::vector<std::string> models) {
  return server(port, {.engine = "vllm", .evidence = "a sign", .models = std::move(models)});
}

ProbedServer silent(std::uint16_t port) {
  ProbedServer probed = server(port, {});
  probed.result = {.outcome = Outcome::silent, .reason = "Connection refused"};
  return probed;
}

const PoolConfig& pool_of(const Draft& draft) {
  EXPECT_EQ(draft.refusal, "");
  EXPECT_EQ(draft.config.pools.size(), 1u);
  return draft.config.pools.at(0);
}

std::vector<std::string> backends_of(const Draft& draft) {
  std::vector<std::string> addresses;
  for (const BackendConfig& backend : pool_of(draft).backends) {
    addresses.push_back(to_string(backend.address));
  }
  return addresses;
}

TEST(QuickDraft, PutsServersOfOneEngineIntoOnePool) {
  const Draft draft = draft_config(options, {vllm(1, {"meta/Llama-3"}), vllm(2, {"meta/Llama-3"})});

  EXPECT_EQ(pool_of(draft).name, "Llama-3");
  EXPECT_EQ(pool_of(draft).engine, "vllm");
  EXPECT_EQ(pool_of(draft).picker, "round-robin");
  EXPECT_THAT(pool_of(draft).models, ElementsAre("meta/Llama-3"));
  EXPECT_THAT(backends_of(draft), ElementsAre("gpu:1", "gpu:2"));
  EXPECT_EQ(draft.config.listeners.at(0).address, options.listen);
  EXPECT_EQ(draft.config.admin.address, options.admin);
  EXPECT_THAT(draft.notes, ElementsAre("http://gpu:1: vllm (a sign), serves meta/Llama-3",
                                       "http://gpu:2: vllm (a sign), serves meta/Llama-3"));
}

TEST(QuickDraft, RoundTripsThroughThePrinter) {
  const std::vector<std::vector<ProbedServer>> pools = {
      {vllm(1, {"a"})},
      {vllm(1, {"${HOME}", "yes", "1.5", "a: b # c"})},
      {server(1, {.engine = "ray", .evidence = "a sign"}), silent(2)},
      {server(1, {})},
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

TEST(QuickDraft, PutsMixedEnginesIntoAGenericPool) {
  const Draft draft = draft_config(
      options,
      {vllm(1, {"a"}), server(2, {.engine = "sglang", .evidence = "a sign", .models = {"a"}})});

  EXPECT_EQ(pool_of(draft).engine, "generic");
  EXPECT_THAT(backends_of(draft), ElementsAre("gpu:1", "gpu:2"));
  EXPECT_THAT(draft.notes, Contains(HasSubstr("vllm and sglang in one pool")));
}

TEST(QuickDraft, ServesCommonModelsAndWarnsOfTheOthers) {
  const Draft draft = draft_config(options, {vllm(1, {"base", "lora"}), vllm(2, {"base"})});

  EXPECT_THAT(pool_of(draft).models, ElementsAre("base"));
  EXPECT_THAT(draft.notes, Contains(StartsWith("warning: not every server has lora;")));
}

TEST(QuickDraft, AcceptsAServerThatListsNoModels) {
  const Draft draft = draft_config(
      options, {server(1, {.engine = "vllm", .evidence = "a sign", .requires_api_key = true}),
                vllm(2, {"a"})});

  EXPECT_THAT(pool_of(draft).models, ElementsAre("a"));
  EXPECT_THAT(draft.notes, Contains(HasSubstr("requires an API key")));
  EXPECT_THAT(draft.notes, Not(Contains(StartsWith("warning"))));
}

TEST(QuickDraft, RefusesServersWithoutACommonModel) {
  const Draft draft =
      draft_config(options, {vllm(1, {"a"}), vllm(2, {"b"}), vllm(3, {"a"}), silent(4)});

  EXPECT_THAT(draft.refusal, HasSubstr("  a: http://gpu:1, http://gpu:3\n  b: http://gpu:2\n"));
  EXPECT_THAT(draft.refusal,
              HasSubstr("  evenkeel quick http://gpu:1 http://gpu:3 --listen 0.0.0.0:8080 --admin "
                        "127.0.0.1:9901 --picker round-robin\n"
                        "  evenkeel quick http://gpu:2 --listen 0.0.0.0:8081 --admin "
                        "127.0.0.1:9902 --picker round-robin"));
}

TEST(QuickDraft, NamesThePoolAfterItsOnlyModel) {
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
  EXPECT_EQ(pool_of(draft_config(options, {vllm(1, {"a", "b"})})).name, "vllm");
}

TEST(QuickDraft, LogsToStderr) {
  const Draft draft = draft_config(options, {vllm(1, {"a"})});

  EXPECT_EQ(draft.config.access_log.path, "stderr");
}

}  // namespace
}  // namespace evenkeel
