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

TEST(ConfigOfCosts, AreExactAmountsOfAPeriod) {
  const std::string prices = "usage: {prices: {'*': {input: 1}}}\n";
  const LoadResult loaded = read(
      "pools: [{name: a, backends: [127.0.0.1:1], budget: {tokens: 10M/month, cost: "
      "[2.5/day, 500/month]}}]\n"
      "tenants: [{name: t, keys_sha256: [" +
      std::string(64, 'a') + "], limits: {cost: 0.000001/s}}]\n" +
      "rate_limits: [{by: address, cost: [10M/hour, 1k/min]}]\n" + prices);

  ASSERT_TRUE(loaded.ok()) << testing::PrintToString(lines_of(loaded.problems));
  EXPECT_THAT(lines_of(loaded.warnings), ElementsAre());
  using enum LimitPeriod;
  const Config& config = loaded.config;
  EXPECT_THAT(config.pools[0].budget.tokens, ElementsAre(LimitRate{10'000'000, month}));
  EXPECT_THAT(config.pools[0].budget.cost,
              ElementsAre(LimitRate{2'500'000, day}, LimitRate{500'000'000, month}));
  EXPECT_THAT(config.tenants[0].limits.cost, ElementsAre(LimitRate{1, second}));
  EXPECT_THAT(config.rate_limits[0].cost,
              ElementsAre(LimitRate{10'000'000'000'000, hour}, LimitRate{1'000'000'000, minute}));
  EXPECT_TRUE(inspects(config.pools[0])) << "tokens are in bodies";
  for (const bool with_defaults : {false, true}) {
    const LoadResult again = read(print_config(config, with_defaults));
    EXPECT_EQ(again.config, config) << print_config(config, with_defaults);
  }
}

TEST(ConfigOfCosts, RefusesWhatIsNoAmount) {
  const auto problems = [](const std::string& cost) {
    return problems_of("pools: [{name: a, backends: [127.0.0.1:1], budget: {cost: " + cost +
                       "}}]\nusage: {prices: {'*': {input: 1}}}\n");
  };
  EXPECT_THAT(problems("500"), ElementsAre(HasSubstr("an amount such as 500/month")));
  EXPECT_THAT(problems("500/months"), ElementsAre(HasSubstr("did you mean '500/month'?")));
  EXPECT_THAT(problems("0/day"), ElementsAre(HasSubstr("expected 0.000001 to 10M")));
  EXPECT_THAT(problems("11M/day"), ElementsAre(HasSubstr("out of range")));
  EXPECT_THAT(problems("-1/day"), ElementsAre(HasSubstr("an amount such as")));
  std::string many = "[1/day";
  for (int i = 0; i < 32; ++i) many += ", 1/day";
  EXPECT_THAT(problems(many + "]"), ElementsAre(HasSubstr("has more than 32 rates")));
}

TEST(ConfigOfCosts, WarnsWhereNothingHasAPrice) {
  const std::string tenant =
      "tenants: [{name: t, keys_sha256: [" + std::string(64, 'a') + "], limits: {cost: 1/day}}]\n";
  const auto pool = [](const std::string& more) {
    return "pools: [{name: a, backends: [127.0.0.1:1]" + more + "}]\n";
  };
  const std::string priced = "usage: {prices: {llama: {input: 1}}}\n";
  EXPECT_THAT(warnings_of(pool(", budget: {cost: 1/day}") + tenant),
              ElementsAre(HasSubstr("budget.cost: has no effect: no model has a price"),
                          HasSubstr("tenants[0].limits.cost: has no effect")));
  EXPECT_THAT(warnings_of(pool(", models: [qwen], budget: {cost: 1/day}") + tenant + priced),
              ElementsAre(HasSubstr("no price is that of a model of the pool"),
                          HasSubstr("no price is that of a model of the pools")));
  EXPECT_THAT(warnings_of(pool(", models: [qwen], model: llama") + tenant + priced), ElementsAre());
  EXPECT_THAT(warnings_of(pool("") + tenant + priced), ElementsAre()) << "models are not known";
  EXPECT_THAT(warnings_of(pool("") + priced),
              ElementsAre(HasSubstr("usage.prices: has no effect: neither records nor limits")));
  EXPECT_THAT(warnings_of(pool("") + "rate_limits: [{by: address, cost: 1/day}]\n"),
              ElementsAre(HasSubstr("rate_limits[0].cost")));
}

TEST(ConfigOfTenants, WarnsOfASessionWithoutAPoolThatPinsSessions) {
  const auto warnings = [](const std::string& more) {
    return warnings_of("pools: [{name: a, backends: [127.0.0.1:1]" + more +
                       "}]\ntenants: [{name: t, session: desk, keys_sha256: [" +
                       std::string(64, 'a') + "]}]\n");
  };
  EXPECT_THAT(warnings(""), ElementsAre(HasSubstr("tenants[0].session: has no effect")));
  EXPECT_THAT(warnings(", affinity: {mode: soft}"), ElementsAre());
  EXPECT_THAT(warnings(", inspect: true"), ElementsAre());
}

TEST(ConfigOfUsage, MaySendRecordsToACollector) {
  EXPECT_FALSE(read(pools + "usage: {path: x}\n").config.usage.http.has_value());
  const LoadResult loaded = read(pools +
                                 "usage: {path: x, http: {url: \"https://a.example/v1/events\", "
                                 "token_file: t, ca: ca.pem, batch: 50, timeout: 3s}}\n");
  ASSERT_TRUE(loaded.ok()) << testing::PrintToString(lines_of(loaded.problems));
  EXPECT_EQ(loaded.config.usage.http, (UsageHttpConfig{.url = "https://a.example/v1/events",
                                                       .token_file = "t",
                                                       .ca = "ca.pem",
                                                       .batch = 50,
                                                       .timeout = milliseconds(3000)}));
  EXPECT_EQ(read(print_config(loaded.config, false)).config, loaded.config);
}

TEST(ConfigOfUsage, RefusesCollectorsThatCannotBeUsed) {
  const auto problems = [](const std::string& http) {
    return problems_of(pools + "usage: {path: x, http: {" + http + "}}\n");
  };
  EXPECT_THAT(problems_of(pools + "usage: {http: {url: \"http://a.example\"}}\n"),
              ElementsAre(HasSubstr("usage.path: missing key 'path'")));
  EXPECT_THAT(problems("batch: 5"), ElementsAre(HasSubstr("missing key 'url'")));
  EXPECT_THAT(problems("url: a.example/v1"), ElementsAre(HasSubstr("usage.http.url: ")));
  EXPECT_THAT(problems("url: \"ftp://a.example\""), ElementsAre(HasSubstr("usage.http.url: ")));
  EXPECT_THAT(problems("url: \"http://a.example\", ca: c"),
              ElementsAre(HasSubstr("'ca' is for https://")));
  EXPECT_THAT(problems("url: \"http://a.example\", batch: 0"),
              ElementsAre(HasSubstr("usage.http.batch: 0 is out of range")));
}

TEST(ConfigOfUsage, SendsNoTokenOverANetworkInPlaintext) {
  const auto problems = [](const std::string& url) {
    return problems_of(pools + "usage: {path: x, http: {token_file: t, url: \"" + url + "\"}}\n");
  };
  for (const char* url : {"http://a.example/x", "http://10.0.0.1:80", "http://[2001:db8::1]/"})
    EXPECT_THAT(problems(url), ElementsAre(HasSubstr("would go over the network in plaintext")));
  for (const char* url :
       {"https://a.example", "http://localhost:80/x", "http://127.0.0.2", "http://[::1]:8000/x"})
    EXPECT_THAT(problems(url), ElementsAre()) << url;
}

TEST(ConfigOfUsage, WarnsWhereTheCollectorCannotWork) {
  Environment environment;
  environment.file_error = [](FileUse use, const std::string& path) -> std::optional<std::string> {
    if (use == FileUse::state && path == "x.sent") return "cannot be written: Permission denied";
    if (use == FileUse::api_key) return "holds no key";
    return std::nullopt;
  };
  const LoadResult loaded = read_config(
      pools + "usage: {path: x, http: {url: \"http://[::1]\", token_file: t}}\n", "f", environment);
  EXPECT_THAT(lines_of(loaded.warnings),
              ElementsAre(HasSubstr("usage.http: 'x.sent' cannot be written: Permission denied")));
  EXPECT_THAT(lines_of(loaded.problems),
              ElementsAre(HasSubstr("usage.http.token_file: 't' holds no key")));
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
