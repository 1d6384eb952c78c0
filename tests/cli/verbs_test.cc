#include "cli/verbs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

// What `evenkeel WORDS` would run `ctl` with; nothing for a usage error.
std::optional<CtlOptions> ctl(std::vector<std::string> words) {
  CLI::App app;
  Invocation invocation;
  std::optional<CtlOptions> parsed;
  add_ctl_verb(app, invocation, [&](const CtlOptions& options) {
    parsed = options;
    return 0;
  });
  words.insert(words.begin(), "ctl");
  std::ranges::reverse(words);
  try {
    app.parse(words);
  } catch (const CLI::ParseError&) {
    return std::nullopt;
  }
  return parsed;
}

std::optional<TopOptions> top(std::vector<std::string> words) {
  CLI::App app;
  Invocation invocation;
  std::optional<TopOptions> parsed;
  add_top_verb(app, invocation, [&](const TopOptions& options) {
    parsed = options;
    return 0;
  });
  words.insert(words.begin(), "top");
  std::ranges::reverse(words);
  try {
    app.parse(words);
  } catch (const CLI::ParseError&) {
    return std::nullopt;
  }
  return parsed;
}

TEST(CtlVerbs, DrainTakesABackendAndHowLongToWait) {
  const auto plain = ctl({"drain", "gpu1:8000"}).value();
  EXPECT_EQ(plain.verb, CtlVerb::drain);
  EXPECT_THAT(plain.backends, testing::ElementsAre("gpu1:8000"));
  EXPECT_FALSE(plain.wait);

  const auto waiting =
      ctl({"drain", "h:1", "--wait", "--timeout", "90s", "--pool", "chat"}).value();
  EXPECT_TRUE(waiting.wait);
  EXPECT_EQ(waiting.timeout, 90s);
  EXPECT_EQ(waiting.pool, "chat");

  EXPECT_EQ(ctl({"drain"}), std::nullopt);
  EXPECT_EQ(ctl({"drain", "h:1", "--timeout", "90s"}), std::nullopt) << "only with --wait";
  EXPECT_EQ(ctl({"drain", "h:1", "--wait", "--timeout", "soon"}), std::nullopt);
}

TEST(CtlVerbs, DrainsSeveralBackendsOrAPoolForATime) {
  const auto several = ctl({"drain", "gpu1:8000", "gpu2:8000", "--for", "10m"}).value();
  EXPECT_THAT(several.backends, testing::ElementsAre("gpu1:8000", "gpu2:8000"));
  EXPECT_EQ(several.drain_for, 10min);

  const auto pool = ctl({"undrain", "--pool", "chat"}).value();
  EXPECT_THAT(pool.backends, testing::IsEmpty());
  EXPECT_EQ(pool.pool, "chat");

  const auto weights = ctl({"weight", "gpu1:8000", "gpu2:8000", "5"}).value();
  EXPECT_THAT(weights.backends, testing::ElementsAre("gpu1:8000", "gpu2:8000"));
  EXPECT_EQ(weights.weight, 5u);
  EXPECT_EQ(ctl({"weight", "--pool", "chat", "5"}).value().weight, 5u);
  EXPECT_EQ(ctl({"weight", "5"}), std::nullopt);
  EXPECT_EQ(ctl({"drain", "h:1", "--for", "0s"}), std::nullopt);
  EXPECT_EQ(ctl({"drain", "h:1", "--for", "soon"}), std::nullopt);
}

TEST(CtlVerbs, RequestsTakeFilters) {
  const RequestFilter all = ctl({"requests"}).value().requests;
  EXPECT_EQ(all, RequestFilter{});
  const RequestFilter slow = ctl({"requests", "--slow"}).value().requests;
  EXPECT_EQ(slow, RequestFilter{.slowest_first = true});
  const RequestFilter some =
      ctl({"requests", "--slow", "2s", "--errors", "--tenant", "acme"}).value().requests;
  EXPECT_EQ(
      some,
      (RequestFilter{.slowest_first = true, .min_duration = 2s, .errors = true, .tenant = "acme"}));
  EXPECT_EQ(ctl({"requests", "--slow", "very"}), std::nullopt);
  const CtlOptions sessions = ctl({"sessions", "--pool", "chat", "--limit", "5"}).value();
  EXPECT_EQ(sessions.verb, CtlVerb::sessions);
  EXPECT_EQ(sessions.pool, "chat");
  EXPECT_EQ(sessions.sessions, 5u);
  EXPECT_EQ(ctl({"sessions", "--limit", "1001"}), std::nullopt);
  EXPECT_EQ(ctl({"tenants"}).value().verb, CtlVerb::tenants);
}

TEST(CtlVerbs, WeightIsAWholeNumberFrom1To1000) {
  EXPECT_EQ(ctl({"weight", "h:1", "1000"}).value().weight, 1000u);
  for (const char* weight : {"0", "1001", "-1", "two", ""}) {
    EXPECT_EQ(ctl({"weight", "h:1", weight}), std::nullopt) << weight;
  }
}

TEST(CtlVerbs, ExplainTakesARequest) {
  const auto options = ctl({"explain", "r-17", "--json"}).value();
  EXPECT_EQ(options.verb, CtlVerb::explain);
  EXPECT_EQ(options.request, "r-17");
  EXPECT_TRUE(options.json);
  EXPECT_EQ(ctl({"explain"}), std::nullopt);
}

TEST(CtlVerbs, OptionsMayStandBeforeOrAfterTheCommand) {
  const std::vector<std::vector<std::string>> lines = {
      {"--admin", "h:1", "--json", "--token-file", "t", "-c", "f", "reload", "--wait"},
      {"reload", "--wait", "--admin", "h:1", "--json", "--token-file", "t", "--config", "f"},
      {"--admin", "h:1", "reload", "--json", "--token-file", "t", "-c", "f", "--wait"}};
  for (const auto& words : lines) {
    const auto options = ctl(words).value();
    EXPECT_EQ(options.verb, CtlVerb::reload);
    EXPECT_EQ(options.target.address, "h:1");
    EXPECT_EQ(options.target.token_file, "t");
    EXPECT_EQ(options.config_file, "f");
    EXPECT_TRUE(options.json);
    EXPECT_TRUE(options.wait);
  }
}

TEST(CtlVerbs, TakeAClientCertificate) {
  const auto options = ctl({"--cert", "c", "reload", "--key", "k"}).value();
  EXPECT_EQ(options.target.cert_file, "c");
  EXPECT_EQ(options.target.key_file, "k");
  EXPECT_EQ(top({"--cert", "c", "--once"}).value().target.cert_file, "c");
}

TEST(CtlVerbs, NeedACommand) {
  EXPECT_EQ(ctl({}), std::nullopt);
  EXPECT_EQ(ctl({"explode"}), std::nullopt);
  EXPECT_EQ(ctl({"status", "--unknown"}), std::nullopt);
}

TEST(TopVerb, SortsByANamedOrder) {
  EXPECT_EQ(top({}).value().sort, "state");
  EXPECT_EQ(top({"--sort", "ttft", "-1"}).value().sort, "ttft");
  EXPECT_TRUE(top({"-1"}).value().once);
  EXPECT_EQ(top({"--sort", "colour"}), std::nullopt);
}

}  // namespace
}  // namespace evenkeel
