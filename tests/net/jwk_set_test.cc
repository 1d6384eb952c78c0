#include "evenkeel/net/jwk_set.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// RFC 7517, A.1.
const std::string coordinates =
    R"("x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM")";
const std::string point = R"("kty":"EC","crv":"P-256",)" + coordinates;
// RFC 8037, A.2.
const std::string edwards =
    R"("kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")";

std::string set_of(const std::string& keys) { return R"({"keys":[)" + keys + "]}"; }

std::string refusal(const std::string& text) {
  auto set = JwkSet::parse(text);
  return set ? std::string("none") : set.error().detail;
}

std::vector<std::string> ids(const std::string& keys) {
  auto set = JwkSet::parse(set_of(keys));
  EXPECT_TRUE(set.ok()) << set.error().detail;
  std::vector<std::string> all;
  if (!set) return all;
  for (const Jwk& each : set->keys()) all.push_back(each.id);
  return all;
}

std::string key(const std::string& id, const std::string& more) {
  return fmt::format(R"({{"kid":"{}",{},{}}})", id, point, more);
}

TEST(JwkSet, HasTheKeysThatVerifySignatures) {
  EXPECT_THAT(ids(key("1", R"("use":"sig")") + "," + key("2", R"("use":"enc")") + "," +
                  key("3", R"("key_ops":["verify"])") + "," + key("4", R"("key_ops":["wrapKey"])") +
                  "," + key("5", R"("key_ops":[])") + "," + key("6", R"("alg":"ES256")") + "," +
                  key("7", R"("alg":"ECDH-ES")") + "," + key("8", R"("alg":"none")") + "," +
                  key("9", R"("use":["sig"])") + "," + key("", R"("x5t":"ignored")") + ",{" +
                  edwards + "}"),
              ElementsAre("1", "3", "6", "", ""));
}

TEST(JwkSet, LeavesOutTypesThatAreNotKnown) {
  EXPECT_THAT(
      ids(R"({"kid":"a","kty":"AKP","pub":"x"},{"kid":"b","kty":"OKP","crv":"X25519","x":"AA"},)"
          R"({"kid":"c","kty":"EC","crv":"secp256k1","x":"AA","y":"AA"},{"kid":"d"},)" +
          key("e", R"("extra":1)")),
      ElementsAre("e"));
  EXPECT_EQ(refusal(set_of(R"({"kty":"AKP"})")), "the key set has no key that verifies signatures");
}

TEST(JwkSet, BindsAKeyToItsAlgorithm) {
  auto set = JwkSet::parse(set_of("{" + edwards + R"(,"alg":"EdDSA"})"));
  ASSERT_TRUE(set.ok());
  EXPECT_TRUE(set->keys()[0].fits(SignatureAlgorithm::eddsa));
  EXPECT_FALSE(set->keys()[0].fits(SignatureAlgorithm::es256));
  EXPECT_EQ(refusal(set_of(key("a", R"("alg":"ES384")"))),
            "keys[0]: its type is not that of `alg: ES384`");
}

TEST(JwkSet, RefusesSecrets) {
  EXPECT_THAT(refusal(set_of(key("a", R"("use":"sig")") + "," + key("b", R"("d":"AQ")"))),
              HasSubstr("keys[1]: a private key"));
  EXPECT_THAT(refusal(set_of("{" + edwards + R"(,"d":"AQ"})")), HasSubstr("a private key"));
  EXPECT_THAT(refusal(set_of(R"({"kty":"RSA","n":"AQ","e":"AQAB","p":"AQ"})")),
              HasSubstr("a private key"));
  EXPECT_THAT(refusal(set_of(R"({"kty":"oct","k":"AQ"})")), HasSubstr("a shared secret"));
  // Also where it would be left out.
  EXPECT_THAT(refusal(set_of(key("a", R"("use":"enc","d":"AQ")"))), HasSubstr("a private key"));
}

TEST(JwkSet, RefusesWeakAndBrokenKeys) {
  const std::string short_modulus(171, 'g');  // 128 bytes
  EXPECT_THAT(refusal(set_of(fmt::format(R"({{"kty":"RSA","n":"{}","e":"AQAB"}})", short_modulus))),
              HasSubstr("at least 2048 are safe"));
  EXPECT_THAT(refusal(set_of(R"({"kty":"RSA","n":"!","e":"AQAB"})")),
              HasSubstr("keys[0]: `n` is not base64url"));
  EXPECT_THAT(refusal(set_of(R"({"kty":"RSA","e":"AQAB"})")), HasSubstr("`n` is not base64url"));
  EXPECT_THAT(refusal(set_of(R"({"kty":"EC","crv":"P-256","x":"AA","y":"AA"})")),
              HasSubstr("a coordinate of P-256 has 32 bytes"));
  EXPECT_THAT(refusal(set_of(R"({"kty":"EC","crv":"P-384",)" + coordinates + "}")),
              HasSubstr("a coordinate of P-384 has 48 bytes"));
  EXPECT_THAT(refusal(set_of(R"({"kty":"OKP","crv":"Ed25519","x":"AA"})")),
              HasSubstr("a key of Ed25519 has 32 bytes"));
}

TEST(JwkSet, RefusesOtherDocuments) {
  for (const char* text : {"{}", "[]", "\"keys\"", R"({"keys":{}})", R"({"keys":"AQ"})"})
    EXPECT_THAT(refusal(text), HasSubstr("not a key set")) << text;
  EXPECT_THAT(refusal(""), HasSubstr("JSON"));
  EXPECT_THAT(refusal("-----BEGIN PUBLIC KEY-----"), HasSubstr("JSON"));
  EXPECT_THAT(refusal(set_of("")), HasSubstr("no key that verifies"));
  EXPECT_THAT(refusal(set_of("1")), HasSubstr("keys[0]: not an object"));
  EXPECT_THAT(refusal(set_of(key("a", R"("kid":"b")"))), HasSubstr("names a member twice"));
  EXPECT_THAT(refusal(set_of("{" + edwards + R"(,"kid":7})")), HasSubstr("`kid` is not a text"));
  EXPECT_THAT(refusal(set_of(key("a", R"("alg":["ES256"])"))), HasSubstr("`alg` is not a text"));
}

TEST(JwkSet, ThatIsPublishedLacksTheKeysThatCannotBeUsed) {
  auto set = JwkSet::parse_published(
      set_of(R"({"kty":"oct","k":"AQ"},)" + key("a", R"("use":"sig")") + "," +
             key("b", R"("d":"AQ")") + "," + key(std::string(1025, 'x'), R"("use":"sig")") + ",1"));

  ASSERT_TRUE(set.ok());
  ASSERT_EQ(set->keys().size(), 1u);
  EXPECT_EQ(set->keys()[0].id, "a");
  EXPECT_THAT(set->first_problem(), HasSubstr("keys[0]: a shared secret"));
}

TEST(JwkSet, ThatIsPublishedMayBeEmpty) {
  for (const auto& keys : {std::string(), std::string("1"), key("a", R"("use":"enc")")}) {
    auto set = JwkSet::parse_published(set_of(keys));
    ASSERT_TRUE(set.ok()) << keys;
    EXPECT_TRUE(set->keys().empty()) << keys;
  }
  for (const char* text : {"", "{}", "[]", R"({"keys":{}})", R"({"keys":[)"})
    EXPECT_FALSE(JwkSet::parse_published(text).ok()) << text;
}

TEST(JwkSet, IsBounded) {
  std::string keys = "{" + edwards + "}";
  for (std::size_t i = 1; i < JwkSet::max_keys; ++i) keys += ",{" + edwards + "}";
  EXPECT_EQ(refusal(set_of(keys)), "none");
  EXPECT_EQ(refusal(set_of(keys + ",{" + edwards + "}")), "the key set has more than 256 keys");
  EXPECT_EQ(refusal(set_of(keys) + std::string(JwkSet::max_bytes, ' ')),
            "the key set has more than 256 KiB");
  EXPECT_THAT(refusal(set_of(key(std::string(1025, 'x'), R"("use":"sig")"))),
              HasSubstr("`kid` has more than 1024 bytes"));
}

}  // namespace
}  // namespace evenkeel
