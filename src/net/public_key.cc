#include "evenkeel/net/public_key.h"

#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>

#include "net/openssl.h"

namespace evenkeel {
namespace {

using OwnedBignum = std::unique_ptr<BIGNUM, OpensslDeleter<BN_free>>;
using OwnedKeyContext = std::unique_ptr<EVP_PKEY_CTX, OpensslDeleter<EVP_PKEY_CTX_free>>;
using OwnedDigestContext = std::unique_ptr<EVP_MD_CTX, OpensslDeleter<EVP_MD_CTX_free>>;
using OwnedParamBuilder = std::unique_ptr<OSSL_PARAM_BLD, OpensslDeleter<OSSL_PARAM_BLD_free>>;
using OwnedParams = std::unique_ptr<OSSL_PARAM, OpensslDeleter<OSSL_PARAM_free>>;
using OwnedEcSignature = std::unique_ptr<ECDSA_SIG, OpensslDeleter<ECDSA_SIG_free>>;

constexpr std::array<std::string_view, signature_algorithm_count> names{
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"};

constexpr std::size_t ed25519_key_bytes = 32;
constexpr std::size_t ed25519_signature_bytes = 64;
constexpr std::size_t max_exponent_bytes = 4;

struct CurveFacts {
  const char* group;
  std::size_t coordinate_bytes;
};
constexpr std::array<CurveFacts, 3> curves{{{"P-256", 32}, {"P-384", 48}, {"P-521", 66}}};

const CurveFacts& facts_of(Curve curve) { return curves[static_cast<std::size_t>(curve)]; }

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Error refused(std::string detail) {
  ERR_clear_error();
  return {.fault = Fault::bad_request, .side = Side::client, .detail = std::move(detail)};
}

/// Makes a key of a type from what `add` gives to the builder; null if OpenSSL takes it for none.
template <class Add>
OwnedKey key_from(const char* type, const Add& add) {
  const OwnedParamBuilder builder(OSSL_PARAM_BLD_new());
  if (builder == nullptr || !add(builder.get())) return nullptr;
  const OwnedParams params(OSSL_PARAM_BLD_to_param(builder.get()));
  const OwnedKeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  if (params == nullptr || context == nullptr) return nullptr;
  EVP_PKEY* made = nullptr;
  if (EVP_PKEY_fromdata_init(context.get()) <= 0 ||
      EVP_PKEY_fromdata(context.get(), &made, EVP_PKEY_PUBLIC_KEY, params.get()) <= 0) {
    return nullptr;
  }
  return OwnedKey(made);
}

OwnedBignum number_of(std::string_view bytes) {
  return OwnedBignum(BN_bin2bn(bytes_of(bytes), static_cast<int>(bytes.size()), nullptr));
}

const EVP_MD* digest_of(SignatureAlgorithm algorithm) {
  switch (algorithm) {
    case SignatureAlgorithm::rs256:
    case SignatureAlgorithm::ps256:
    case SignatureAlgorithm::es256: return EVP_sha256();
    case SignatureAlgorithm::rs384:
    case SignatureAlgorithm::ps384:
    case SignatureAlgorithm::es384: return EVP_sha384();
    case SignatureAlgorithm::rs512:
    case SignatureAlgorithm::ps512:
    case SignatureAlgorithm::es512: return EVP_sha512();
    case SignatureAlgorithm::eddsa: break;  // hashes by itself
  }
  return nullptr;
}

bool is_pss(SignatureAlgorithm algorithm) {
  return algorithm >= SignatureAlgorithm::ps256 && algorithm <= SignatureAlgorithm::ps512;
}

/// The signature r || s, each of `coordinate_bytes`, in DER as OpenSSL reads it. Empty: it has
/// another length.
std::string der_of(std::string_view signature, std::size_t coordinate_bytes) {
  if (signature.size() != 2 * coordinate_bytes) return {};
  OwnedBignum r = number_of(signature.substr(0, coordinate_bytes));
  OwnedBignum s = number_of(signature.substr(coordinate_bytes));
  const OwnedEcSignature pair(ECDSA_SIG_new());
  if (r == nullptr || s == nullptr || pair == nullptr) return {};
  if (ECDSA_SIG_set0(pair.get(), r.get(), s.get()) != 1) return {};
  static_cast<void>(r.release());
  static_cast<void>(s.release());
  std::string der(static_cast<std::size_t>(std::max(0, i2d_ECDSA_SIG(pair.get(), nullptr))), '\0');
  auto* end = reinterpret_cast<unsigned char*>(der.data());
  i2d_ECDSA_SIG(pair.get(), &end);
  return der;
}

bool openssl_verifies(EVP_PKEY* key, SignatureAlgorithm algorithm, std::string_view message,
                      std::string_view signature) {
  const OwnedDigestContext context(EVP_MD_CTX_new());
  EVP_PKEY_CTX* options = nullptr;  // owned by `context`
  if (context == nullptr ||
      EVP_DigestVerifyInit(context.get(), &options, digest_of(algorithm), nullptr, key) != 1) {
    return false;
  }
  // RFC 7518, section 3.5: the salt is as long as the hash, and MGF1 uses the same hash.
  if (is_pss(algorithm) &&
      (EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) != 1 ||
       EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) != 1)) {
    return false;
  }
  return EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(message),
                          message.size()) == 1;
}

}  // namespace

std::string_view to_string(SignatureAlgorithm algorithm) {
  return names[static_cast<std::size_t>(algorithm)];
}

std::optional<SignatureAlgorithm> signature_algorithm_of(std::string_view name) {
  const auto* const found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<SignatureAlgorithm>(found - names.begin());
}

struct PublicKey::Parsed {
  OwnedKey key;
};

Result<PublicKey> PublicKey::rsa(std::string_view modulus, std::string_view exponent) {
  const auto first_byte = [](std::string_view number) {
    return number.empty() ? 0U : static_cast<unsigned char>(number.front());
  };
  const auto is_odd = [](std::string_view number) {
    return (static_cast<unsigned char>(number.back()) & 1U) != 0;
  };
  if (first_byte(modulus) == 0 || first_byte(exponent) == 0)
    return refused("a number of the key is empty, or begins with zeros");
  const std::size_t bits = modulus.size() * 8 - 8 + std::bit_width(first_byte(modulus));
  if (bits < min_rsa_bits)
    return refused(fmt::format("the key has {} bits, at least {} are safe", bits, min_rsa_bits));
  if (bits > max_rsa_bits)
    return refused(fmt::format("the key has {} bits, at most {} are taken", bits, max_rsa_bits));
  // With an exponent of 1 anyone can sign.
  const bool is_one = exponent.size() == 1 && exponent.front() == 1;
  if (is_one || !is_odd(exponent) || exponent.size() > max_exponent_bytes)
    return refused("the exponent of the key is not an odd number from 3 to 2^32 - 1");
  if (!is_odd(modulus)) return refused("the modulus of the key is even");
  const OwnedBignum n = number_of(modulus);
  const OwnedBignum e = number_of(exponent);
  auto key = key_from("RSA", [&](OSSL_PARAM_BLD* builder) {
    return OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n.get()) == 1 &&
           OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e.get()) == 1;
  });
  if (key == nullptr) return refused("not a key of RSA: " + openssl_error_text());
  return PublicKey(Kind::rsa, std::make_shared<const Parsed>(std::move(key)));
}

Result<PublicKey> PublicKey::ec(Curve curve, std::string_view x, std::string_view y) {
  const CurveFacts& facts = facts_of(curve);
  if (x.size() != facts.coordinate_bytes || y.size() != facts.coordinate_bytes) {
    return refused(
        fmt::format("a coordinate of {} has {} bytes", facts.group, facts.coordinate_bytes));
  }
  const std::string point = std::string("\x04").append(x).append(y);  // as in SEC 1, 2.3.3
  auto key = key_from("EC", [&](OSSL_PARAM_BLD* builder) {
    return OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, facts.group, 0) ==
               1 &&
           OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                            point.size()) == 1;
  });
  const OwnedKeyContext check(
      key == nullptr ? nullptr : EVP_PKEY_CTX_new_from_pkey(nullptr, key.get(), nullptr));
  if (check == nullptr || EVP_PKEY_public_check(check.get()) != 1)
    return refused(fmt::format("not a point of {}", facts.group));
  const auto kind = static_cast<Kind>(static_cast<int>(Kind::p256) + static_cast<int>(curve));
  return PublicKey(kind, std::make_shared<const Parsed>(std::move(key)));
}

Result<PublicKey> PublicKey::ed25519(std::string_view point) {
  if (point.size() != ed25519_key_bytes)
    return refused(fmt::format("a key of Ed25519 has {} bytes", ed25519_key_bytes));
  OwnedKey key(
      EVP_PKEY_new_raw_public_key_ex(nullptr, "ED25519", nullptr, bytes_of(point), point.size()));
  if (key == nullptr) return refused("not a key of Ed25519: " + openssl_error_text());
  return PublicKey(Kind::ed25519, std::make_shared<const Parsed>(std::move(key)));
}

bool PublicKey::fits(SignatureAlgorithm algorithm) const {
  switch (algorithm) {
    case SignatureAlgorithm::es256: return kind_ == Kind::p256;
    case SignatureAlgorithm::es384: return kind_ == Kind::p384;
    case SignatureAlgorithm::es512: return kind_ == Kind::p521;
    case SignatureAlgorithm::eddsa: return kind_ == Kind::ed25519;
    default: return kind_ == Kind::rsa;
  }
}

bool PublicKey::verifies(SignatureAlgorithm algorithm, std::string_view message,
                         std::string_view signature) const {
  bool good = false;
  if (kind_ == Kind::p256 || kind_ == Kind::p384 || kind_ == Kind::p521) {
    const auto curve = static_cast<Curve>(static_cast<int>(kind_) - static_cast<int>(Kind::p256));
    const std::string der = der_of(signature, facts_of(curve).coordinate_bytes);
    good = !der.empty() && openssl_verifies(key_->key.get(), algorithm, message, der);
  } else {
    const bool may_be = kind_ != Kind::ed25519 || signature.size() == ed25519_signature_bytes;
    good = may_be && openssl_verifies(key_->key.get(), algorithm, message, signature);
  }
  // What a failure leaves behind would be taken for an error of the next connection.
  if (!good) ERR_clear_error();
  return good;
}

}  // namespace evenkeel
