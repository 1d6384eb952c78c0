// Key sets and signed tokens. The first byte says what the rest is: a token, a key set, or header
// and payload of a token that is signed here. Properties: no token is accepted that was not signed,
// and one that is accepted is what the rules ask for.
#include "evenkeel/net/jwt.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "require.h"

namespace {

using namespace evenkeel;

// RFC 8037, A.1.
constexpr std::array<unsigned char, 32> private_key{
    0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4,
    0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60};
// The public part of it, and the keys of RFC 7515, A.3, and RFC 7520, 3.1.
constexpr std::string_view keys = R"({"keys":[
  {"kty":"OKP","crv":"Ed25519","kid":"ed","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
  {"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
   "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},
  {"kty":"EC","crv":"P-521","alg":"ES512",
   "x":"AHKZLLOsCOzz5cY97ewNUajB957y-C-U88c3v13nmGZx6sYl_oJXu9A5RkTKqjqvjyekWF-7ytDyRXYgCF5cj0Kt",
   "y":"AdymlHvOiLxXkEhayXQnNCvDX4h9htZaCJN34kfmC6pV5OhQHiraVySsUdaQkAgDPrwQrJmbnX9cwlGfP-HqHZR1"}]})";
// RFC 7515, A.3: the only token that is signed by one of them and not here.
constexpr std::string_view good =
    "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNv"
    "bS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfK"
    "TUJqPP3-Kg6NU1Q";
constexpr double now = 1'300'000'000;

const JwkSet& key_set() {
  static const JwkSet set = [] {
    auto parsed = JwkSet::parse(keys);
    require(parsed.ok(), "the keys of the standards are taken");
    return std::move(*parsed);
  }();
  return set;
}

JwtRules rules() {
  JwtRules made;
  made.issuer = "joe";
  made.leeway = std::chrono::seconds(60);
  made.tenant_claim = "org.name";
  made.models_claim = "scope";
  return made;
}

std::string base64url(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3), '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  while (text.ends_with('=')) text.pop_back();
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  return text;
}

std::string signature_of(std::string_view text) {
  static EVP_PKEY* const key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr,
                                                            private_key.data(), private_key.size());
  std::string signature(64, '\0');
  std::size_t size = signature.size();
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  require(EVP_DigestSignInit(context, nullptr, nullptr, nullptr, key) == 1 &&
              EVP_DigestSign(context, reinterpret_cast<unsigned char*>(signature.data()), &size,
                             reinterpret_cast<const unsigned char*>(text.data()), text.size()) == 1,
          "OpenSSL signs");
  EVP_MD_CTX_free(context);
  return signature;
}

void read_token(std::string_view text) {
  const auto verdict = verify_jwt(text, key_set(), rules(), now);
  require(std::holds_alternative<JwtRefusal>(verdict) || text == good,
          "no token is accepted that was not signed");
}

void read_keys(std::string_view text) {
  const auto set = JwkSet::parse(text);
  const auto published = JwkSet::parse_published(text);
  require(published.ok() || !set.ok(), "what a file may have a URL may have");
  if (!set) return;
  require(!set->keys().empty() && set->keys().size() <= JwkSet::max_keys, "a set has keys");
  static_cast<void>(verify_jwt(good, *set, rules(), now));
}

void read_signed(std::string_view text) {
  const std::size_t end = std::min(text.find('\0'), text.size());
  const std::string_view payload = text.substr(std::min(end + 1, text.size()));
  std::string token = base64url(text.substr(0, end)) + "." + base64url(payload);
  const std::string signature = signature_of(token);
  token += "." + base64url(signature);
  const auto verdict = verify_jwt(token, key_set(), rules(), now);
  const auto* const claims = std::get_if<JwtClaims>(&verdict);
  if (claims == nullptr) return;
  require(claims->expires > now - 60, "an accepted token has not expired");
  require(std::get<Jwt>(Jwt::parse(token)).claimed_issuer() == "joe", "it is of the issuer");
  require(verify_jwt(token, key_set(), rules(), now) == verdict, "the verdict stays");
  JwtRules others = rules();
  others.issuer = "jo";
  require(std::holds_alternative<JwtRefusal>(verify_jwt(token, key_set(), others, now)),
          "another issuer refuses it");
  require(
      std::holds_alternative<JwtRefusal>(verify_jwt(token + "A", key_set(), rules(), now)) &&
          std::holds_alternative<JwtRefusal>(verify_jwt(token.substr(1), key_set(), rules(), now)),
      "its text has nothing more and nothing less");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // A copy, so that ASan detects reads beyond it.
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'k': read_keys(text); break;
    case 's': read_signed(text); break;
    default: read_token(text); break;
  }
  return 0;
}
