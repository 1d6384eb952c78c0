// Tokens of other libraries, and attacks (jwt_corpus.py).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <variant>

#include "evenkeel/net/jwt.h"

namespace evenkeel {
namespace {

JsonValue corpus() {
  std::ifstream file(std::filesystem::path(EVENKEEL_SOURCE_DIR) / "tests/net/jwt_corpus.json");
  auto document = parse_json(std::string(std::istreambuf_iterator<char>(file), {}));
  EXPECT_TRUE(document.ok());
  return document ? std::move(*document) : JsonValue();
}

std::string name_of(JwtRefusal refusal) {
  switch (refusal) {
    case JwtRefusal::too_long: return "too_long";
    case JwtRefusal::malformed: return "malformed";
    case JwtRefusal::algorithm: return "algorithm";
    case JwtRefusal::critical: return "critical";
    case JwtRefusal::type: return "type";
    case JwtRefusal::no_keys: return "no_keys";
    case JwtRefusal::unknown_key: return "unknown_key";
    case JwtRefusal::signature: return "signature";
    case JwtRefusal::issuer: return "issuer";
    case JwtRefusal::audience: return "audience";
    case JwtRefusal::expired: return "expired";
    case JwtRefusal::not_yet_valid: return "not_yet_valid";
  }
  return "unknown";
}

TEST(JwtCorpus, EachTokenHasItsOutcome) {
  const JsonValue all = corpus();
  const auto keys = JwkSet::parse(json_text(all["keys"]));
  ASSERT_TRUE(keys.ok()) << keys.error().detail;
  ASSERT_GT(all["cases"].items().size(), 150u);

  for (const JsonValue& each : all["cases"].items()) {
    const JwtRules rules{.issuer = "https://idp.example",
                         .audiences = {"gateway"},
                         .type = each["type"].text(),
                         .leeway = std::chrono::seconds(30),
                         .tenant_claim = "org.name",
                         .models_claim = "scope"};
    const auto verdict =
        verify_jwt(each["token"].text(), *keys, rules, all["now"].number().value_or(0));
    const auto* const refusal = std::get_if<JwtRefusal>(&verdict);
    EXPECT_EQ(refusal == nullptr ? "accepted" : name_of(*refusal), each["outcome"].text())
        << each["name"].text();
  }
}

TEST(JwtCorpus, GoodTokensGiveTheirClaims) {
  const JsonValue all = corpus();
  const auto keys = JwkSet::parse(json_text(all["keys"]));
  ASSERT_TRUE(keys.ok()) << keys.error().detail;
  JwtRules rules;
  rules.issuer = "https://idp.example";
  rules.tenant_claim = "org.name";
  rules.models_claim = "scope";
  std::size_t read = 0;
  for (const JsonValue& each : all["cases"].items()) {
    if (!each["name"].text().starts_with("PyJWT") && !each["name"].text().starts_with("jwcrypto"))
      continue;
    const auto verdict = verify_jwt(each["token"].text(), *keys, rules, 1'800'000'000);
    ASSERT_TRUE(std::holds_alternative<JwtClaims>(verdict)) << each["name"].text();
    EXPECT_EQ(std::get<JwtClaims>(verdict),
              (JwtClaims{.issuer = rules.issuer,
                         .subject = "user-17",
                         .expires = 1'800'003'600,
                         .tenants = {"acme"},
                         .models = std::vector<std::string>{"llama-3", "qwen-3"}}));
    ++read;
  }
  EXPECT_EQ(read, 2 * signature_algorithm_count);
}

TEST(JwtCorpus, ClaimsAreFoundByTheirNames) {
  const auto texts_of = [](const JsonValue& list) {
    std::vector<std::string> texts;
    for (const JsonValue& each : list.items()) texts.push_back(each.text());
    return texts;
  };
  const JsonValue all = corpus();
  const auto keys = JwkSet::parse(json_text(all["keys"]));
  ASSERT_TRUE(keys.ok()) << keys.error().detail;
  std::size_t read = 0;
  for (const JsonValue& each : all["cases"].items()) {
    if (!each["name"].text().starts_with("given: ")) continue;
    JwtRules rules;
    rules.issuer = "https://idp.example";
    rules.tenant_claim = each["tenant_claim"].text();
    rules.models_claim = each["models_claim"].text();
    const auto verdict = verify_jwt(each["token"].text(), *keys, rules, 1'800'000'000);
    ASSERT_TRUE(std::holds_alternative<JwtClaims>(verdict)) << each["name"].text();
    const auto& claims = std::get<JwtClaims>(verdict);
    EXPECT_EQ(claims.tenants, texts_of(each["tenants"])) << each["name"].text();
    EXPECT_EQ(claims.models.has_value(), !each["models"].is_null()) << each["name"].text();
    EXPECT_EQ(claims.models.value_or(std::vector<std::string>()), texts_of(each["models"]))
        << each["name"].text();
    ++read;
  }
  EXPECT_EQ(read, 15u);
}

}  // namespace
}  // namespace evenkeel
