#include "evenkeel/net/jwt.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <variant>

namespace evenkeel {
namespace {

// RFC 7515, A.3: of the issuer joe, for anyone, until `end`.
constexpr std::string_view token =
    "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNv"
    "bS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfK"
    "TUJqPP3-Kg6NU1Q";
constexpr double end = 1'300'819'380;
constexpr std::string_view its_key =
    R"({"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",)"
    R"("y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"})";
// RFC 7517, A.1.
constexpr std::string_view other_key =
    R"({"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",)"
    R"("y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"})";

/// The set of other keys, behind which the token's own is.
JwkSet keys_behind(std::size_t others) {
  std::string text = R"({"keys":[)";
  for (std::size_t i = 0; i < others; ++i) text.append(other_key).append(",");
  auto set = JwkSet::parse(text.append(its_key).append("]}"));
  EXPECT_TRUE(set.ok()) << set.error().detail;
  return std::move(*set);
}

JwtRules rules() {
  JwtRules made;
  made.issuer = "joe";
  return made;
}

/// What is wrong; empty: it is accepted.
std::string refusal(std::string_view text, const JwkSet& keys, const JwtRules& rules, double now) {
  const auto verdict = verify_jwt(text, keys, rules, now);
  const auto* const refused = std::get_if<JwtRefusal>(&verdict);
  return refused == nullptr ? std::string() : std::string(to_string(*refused));
}

TEST(Jwt, IsGoodUntilItExpires) {
  const JwkSet keys = keys_behind(0);
  EXPECT_EQ(refusal(token, keys, rules(), end - 1), "");
  EXPECT_EQ(refusal(token, keys, rules(), end - 1e-3), "");
  EXPECT_EQ(refusal(token, keys, rules(), end), "the token has expired");
  EXPECT_EQ(refusal(token, keys, rules(), std::numeric_limits<double>::max()),
            "the token has expired");
  JwtRules patient = rules();
  patient.leeway = std::chrono::seconds(60);
  EXPECT_EQ(refusal(token, keys, patient, end + 59), "");
  EXPECT_EQ(refusal(token, keys, patient, end + 60), "the token has expired");
}

TEST(Jwt, NeedsWhatTheRulesAskFor) {
  const JwkSet keys = keys_behind(0);
  JwtRules wanting = rules();
  wanting.issuer = "Joe";
  EXPECT_EQ(refusal(token, keys, wanting, end - 1), "the token is of another issuer");
  wanting = rules();
  wanting.audiences = {"joe"};
  EXPECT_EQ(refusal(token, keys, wanting, end - 1), "the token is for another audience");
  wanting = rules();
  wanting.type = "JWT";
  EXPECT_EQ(refusal(token, keys, wanting, end - 1), "the token is of another type");
}

TEST(Jwt, IsVerifiedByAFewKeysWhereItNamesNone) {
  EXPECT_EQ(refusal(token, keys_behind(Jwt::max_tried_keys - 1), rules(), end - 1), "");
  EXPECT_EQ(refusal(token, keys_behind(Jwt::max_tried_keys), rules(), end - 1),
            "the token's signature is wrong");
}

TEST(Jwt, TellsItsIssuerBeforeItIsVerified) {
  const auto parsed = Jwt::parse(token);
  ASSERT_TRUE(std::holds_alternative<Jwt>(parsed));
  EXPECT_EQ(std::get<Jwt>(parsed).claimed_issuer(), "joe");
}

TEST(Jwt, IsRefusedWithEachOfItsBitsChanged) {
  const JwkSet keys = keys_behind(0);
  for (std::size_t i = 0; i < token.size(); ++i) {
    for (const unsigned bit : {1U, 2U, 4U, 8U, 16U, 32U, 64U, 128U}) {
      std::string changed(token);
      changed[i] = static_cast<char>(static_cast<unsigned char>(changed[i]) ^ bit);
      EXPECT_NE(refusal(changed, keys, rules(), end - 1), "") << changed;
    }
  }
}

TEST(Jwt, IsRefusedWhereItIsCut) {
  const JwkSet keys = keys_behind(0);
  for (std::size_t size = 0; size < token.size(); ++size)
    EXPECT_NE(refusal(token.substr(0, size), keys, rules(), end - 1), "") << size;
}

TEST(Jwt, EachRefusalHasItsText) {
  for (std::size_t i = 0; i < jwt_refusal_count; ++i)
    EXPECT_NE(to_string(static_cast<JwtRefusal>(i)), "");
}

}  // namespace
}  // namespace evenkeel
