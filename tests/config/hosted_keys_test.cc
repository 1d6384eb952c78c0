// The keys of hosted pools, of fallbacks, and of what is changed in bodies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config/test_environment.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

std::string hosted(const std::string& more = "", const std::string& address = "https://p.test",
                   const std::string& key = ", api_key_file: key") {
  return "pools: [{name: a, hosted: true, backends: [{address: '" + address + "'" + key + "}]" +
         more + "}]\n";
}

LoadResult read_again(const LoadResult& loaded, bool with_defaults) {
  return read(print_config(loaded.config, with_defaults));
}

TEST(ConfigOfHostedPools, HaveAKeyTlsAndNoEngine) {
  EXPECT_THAT(problems_of(hosted()), IsEmpty());
  EXPECT_THAT(problems_of(hosted("", "https://p.test", "")),
              ElementsAre(HasSubstr("give each backend an `api_key_file`")));
  EXPECT_THAT(problems_of(hosted("", "http://p.test")),
              ElementsAre(HasSubstr("in plaintext; write https:// in the addresses")));
  EXPECT_THAT(problems_of(hosted(", engine: vllm")),
              ElementsAre(HasSubstr("remove `engine`, or `hosted`")));
}

TEST(ConfigOfHostedPools, NameTheFieldOfTheirKey) {
  const auto field = [](const std::string& name) {
    const LoadResult loaded =
        read(hosted("", "https://p.test", ", api_key_file: key, api_key_header: " + name));
    EXPECT_THAT(lines_of(loaded.problems), IsEmpty());
    return loaded.config.pools.at(0).backends.at(0).api_key_header;
  };
  EXPECT_EQ(field("Api-Key"), "api-key");
  EXPECT_EQ(field("Authorization"), "");
  EXPECT_THAT(
      problems_of(hosted("", "https://p.test", ", api_key_file: key, api_key_header: host")),
      ElementsAre(HasSubstr("'host' cannot carry a key")));
}

TEST(ConfigOfHostedPools, ServeTheModelsThatTheyHaveNamesFor) {
  const auto models = [](const std::string& more) {
    return read(hosted(more)).config.pools.at(0).models;
  };
  EXPECT_THAT(models(", model_names: {small: x, large: y}"), ElementsAre("large", "small"));
  EXPECT_THAT(models(", model_names: {small: x}, model: y"), IsEmpty());
  EXPECT_THAT(models(", model_names: {small: x}, models: [b]"), ElementsAre("b"));
  EXPECT_TRUE(inspects(read(hosted(", model_names: {small: x}")).config.pools.at(0)));
}

TEST(ConfigOfFallbacks, AreANameOrSayWhen) {
  const auto loaded = [](const std::string& fallback) {
    LoadResult result = read("pools: [{name: a, backends: [h:1], fallback: " + fallback +
                             "}, {name: b, backends: [h:2]}]\nroutes: [{pool: a}]\n");
    EXPECT_THAT(lines_of(result.problems), IsEmpty());
    for (const bool with_defaults : {false, true})
      EXPECT_EQ(read_again(result, with_defaults).config, result.config)
          << print_config(result.config, with_defaults);
    return result;
  };
  using enum FallbackReason;
  const auto fallback = [&](const std::string& text) {
    return loaded(text).config.pools[0].fallback;
  };
  EXPECT_EQ(fallback("b"), (FallbackConfig{"b", {down, saturated, over_budget}}));
  EXPECT_EQ(fallback("{pool: b}"), (FallbackConfig{"b", {down, saturated, over_budget}}));
  EXPECT_EQ(fallback("{pool: b, when: down}"), (FallbackConfig{"b", {down}}));
  EXPECT_EQ(fallback("{pool: b, when: [saturated]}"), (FallbackConfig{"b", {saturated}}));
  EXPECT_EQ(fallback("{pool: b, when: over_budget}"), (FallbackConfig{"b", {over_budget}}));
  EXPECT_THAT(print_config(loaded("{pool: b, when: [down, saturated, over_budget]}").config, false),
              HasSubstr("fallback: b\n"));
}

TEST(ConfigOfBodies, KeepsValuesAsJson) {
  const LoadResult loaded = read(
      "pools:\n"
      "- name: a\n"
      "  backends: [h:1]\n"
      "  body:\n"
      "    defaults: {temperature: 0.2, stop: [\"a$$b\", '1'], seed: 1e3, user: me}\n"
      "    set: {chat_template_kwargs: {enable_thinking: false, deep: [{}, []]}}\n"
      "    max_tokens: 100\n");

  ASSERT_THAT(lines_of(loaded.problems), IsEmpty());
  const BodyConfig& body = loaded.config.pools[0].body;
  EXPECT_THAT(body.defaults, ElementsAre(Pair("seed", "1e3"), Pair("stop", R"(["a$b","1"])"),
                                         Pair("temperature", "0.2"), Pair("user", R"("me")")));
  EXPECT_THAT(body.set, ElementsAre(Pair("chat_template_kwargs",
                                         R"({"enable_thinking":false,"deep":[{},[]]})")));
  for (const bool with_defaults : {false, true})
    EXPECT_EQ(read_again(loaded, with_defaults).config, loaded.config)
        << print_config(loaded.config, with_defaults);
}

TEST(ConfigOfBodies, RefusesWhatIsNotForIt) {
  const auto problems = [](const std::string& set) {
    return problems_of("pools: [{name: a, backends: [h:1], body: {set: {" + set + "}}}]\n");
  };
  EXPECT_THAT(problems("model: x"), ElementsAre(HasSubstr("see `model` and `model_names`")));
  EXPECT_THAT(problems("stream: true"), ElementsAre(HasSubstr("'stream' cannot be changed here")));
  EXPECT_THAT(problems("max_tokens: many"), ElementsAre(HasSubstr("a whole number of tokens")));
  EXPECT_THAT(problems("a: 0x10"), ElementsAre(HasSubstr("is not a value of JSON")));
  EXPECT_THAT(problems("a: null").size(), testing::Eq(1u));
}

TEST(ConfigOfBodies, HasBodiesReadForRoutesAndTenants) {
  const std::string pools = "pools: [{name: a, backends: [h:1]}]\n";
  EXPECT_FALSE(inspects(read(pools).config.pools[0]));
  EXPECT_TRUE(
      inspects(read(pools + "routes: [{pool: a, body: {max_tokens: 5}}]\n").config.pools[0]));
  EXPECT_TRUE(inspects(read(pools + "tenants: [{name: t, max_tokens: 5}]\n").config.pools[0]));
}

}  // namespace
}  // namespace evenkeel
