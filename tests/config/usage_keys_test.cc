#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "config/test_environment.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string pools = "pools: [{name: a, backends: [127.0.0.1:1]}]\n";

TEST(ConfigOfUsage, IsOffWithoutAFile) {
  const LoadResult off = read(pools);
  EXPECT_FALSE(off.config.usage.is_on());
  EXPECT_FALSE(inspects(off.config.pools[0]));

  const LoadResult on = read(pools + "usage: {path: usage.jsonl}\n");
  EXPECT_TRUE(on.config.usage.is_on());
  EXPECT_TRUE(inspects(on.config.pools[0])) << "tokens are in bodies";
}

TEST(ConfigOfUsage, KeepsPricesInTheOrderOfTheFile) {
  const LoadResult loaded = read(pools +
                                 "usage:\n"
                                 "  path: usage.jsonl\n"
                                 "  prices:\n"
                                 "    zeta-*: {input: 0.6, output: 1.8, cached_input: 0.1}\n"
                                 "    '*': {output: 2}\n"
                                 "    alpha: {input: 0.000001}\n");

  ASSERT_TRUE(loaded.ok()) << testing::PrintToString(lines_of(loaded.problems));
  EXPECT_THAT(loaded.config.usage.prices,
              ElementsAre(ModelPrice{"zeta-*", 0.6, 1.8, 0.1}, ModelPrice{"*", 0, 2, {}},
                          ModelPrice{"alpha", 0.000001, 0, {}}));
  const LoadResult again = read(print_config(loaded.config, false));
  EXPECT_EQ(again.config, loaded.config) << print_config(loaded.config, false);
}

TEST(ConfigOfUsage, RefusesWhatCannotBeBilled) {
  const auto problems = [](const std::string& usage) {
    return problems_of(pools + "usage: {" + usage + "}\n");
  };
  EXPECT_THAT(problems("source: gw1"), ElementsAre(HasSubstr("usage.path: missing key 'path'")));
  EXPECT_THAT(problems("path: x, prices: {m: {input: -1}}"),
              ElementsAre(HasSubstr("usage.prices.m.input: -1 is out of range")));
  EXPECT_THAT(problems("path: x, prices: {m: {input: 0.0000001}}"),
              ElementsAre(HasSubstr("'input' has more than six decimals")));
  EXPECT_THAT(problems("path: x, prices: {m: {imput: 1}}"),
              ElementsAre(HasSubstr("did you mean 'input'?")));
  EXPECT_THAT(problems("path: x, prices: [m]"), ElementsAre(HasSubstr("expected a mapping")));
}

TEST(ConfigOfAudit, NeedsAFile) {
  EXPECT_FALSE(read(pools).config.audit.is_on());
  EXPECT_TRUE(read(pools + "audit: {path: audit.jsonl, key_file: key}\n").config.audit.is_on());
  const auto problems = [](const std::string& audit) {
    return problems_of(pools + "audit: {" + audit + "}\n");
  };
  EXPECT_THAT(problems("key_file: key"), ElementsAre(HasSubstr("audit.path: missing key 'path'")));
  EXPECT_THAT(problems("path: stdout"), ElementsAre(HasSubstr("'stdout' is not a file")));
}

TEST(ConfigOfTokenIssuers, TakesKeysFromAFileOrOverTls) {
  const auto problems = [](const std::string& issuer) {
    return problems_of(pools + "tenants: [{name: a}]\nauth: {jwt: [{issuer: i, audience: x, " +
                       issuer + "}]}\n");
  };
  EXPECT_THAT(problems("jwks: keys.json"), ElementsAre());
  EXPECT_THAT(problems("jwks: \"https://id.example.org/keys?v=1\", ca: ca.pem, refresh: 1h"),
              ElementsAre());
  EXPECT_THAT(problems("jwks: \"http://id.example.org/keys\""),
              ElementsAre(HasSubstr("is no https:// URL")));
  EXPECT_THAT(problems("jwks: \"https://id.example.org:x/keys\""),
              ElementsAre(HasSubstr("auth.jwt[0].jwks")));
  EXPECT_THAT(problems("jwks: keys.json, ca: ca.pem"), ElementsAre(HasSubstr("'ca' is for a URL")));
  EXPECT_THAT(problems("jwks: \"https://id.example.org/keys\", refresh: 10ms"),
              ElementsAre(HasSubstr("auth.jwt[0].refresh")));
}

TEST(ConfigOfTokenIssuers, TakesOneUrlOfSeveralIssuersIfItIsFetchedOnce) {
  const auto problems = [](const std::string& issuer, const std::string& more) {
    const std::string common = "audience: x, jwks: \"https://id.example.org/keys\"";
    return problems_of(pools + "tenants: [{name: a}]\nauth: {jwt: [{issuer: i, " + common +
                       ", refresh: 1h}, {issuer: " + issuer + ", " + common + more + "}]}\n");
  };
  EXPECT_THAT(problems("j", ", refresh: 1h"), ElementsAre());
  EXPECT_THAT(problems("j", ""), ElementsAre(HasSubstr("has the same URL, but another `refresh`")));
  EXPECT_THAT(problems("j", ", refresh: 1h, ca: ca.pem"), ElementsAre(HasSubstr("another `ca`")));
  EXPECT_THAT(problems("i", ", refresh: 1h"), ElementsAre(HasSubstr("duplicate issuer 'i'")));
}

}  // namespace
}  // namespace evenkeel
