// Public keys, and the signatures that they verify.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "evenkeel/base/result.h"

namespace evenkeel {

/// The algorithms of JSON Web Signatures that have a public key (RFC 7518, section 3.1, and RFC
/// 8037): those with a shared secret, and `none`, do not exist here.
enum class SignatureAlgorithm : std::uint8_t {
  rs256,
  rs384,
  rs512,
  ps256,
  ps384,
  ps512,
  es256,
  es384,
  es512,
  eddsa,
};
inline constexpr std::size_t signature_algorithm_count = 10;

/// The name, such as "RS256".
std::string_view to_string(SignatureAlgorithm algorithm);
std::optional<SignatureAlgorithm> signature_algorithm_of(std::string_view name);

enum class Curve : std::uint8_t { p256, p384, p521 };

/// A public key. Copies share it. Thread: any, at the same time.
class PublicKey {
 public:
  static constexpr std::size_t min_rsa_bits = 2048;
  static constexpr std::size_t max_rsa_bits = 8192;  ///< more take long to verify

  /// A key of RSA. Both are unsigned numbers, the most significant byte first, without zeros before
  /// it. Errors: bad_request, with what is wrong, as in the others.
  static Result<PublicKey> rsa(std::string_view modulus, std::string_view exponent);
  /// A point of the curve, whose coordinates have their full size.
  static Result<PublicKey> ec(Curve curve, std::string_view x, std::string_view y);
  static Result<PublicKey> ed25519(std::string_view point);

  /// True if the algorithm is for keys of this kind: ES256 is for P-256 alone.
  bool fits(SignatureAlgorithm algorithm) const;
  /// True if the signature, in the form of RFC 7518, is that of the message by this key. Takes 30
  /// us with RSA, 90 to 700 us with others. REQUIRES: the key fits the algorithm.
  bool verifies(SignatureAlgorithm algorithm, std::string_view message,
                std::string_view signature) const;

 private:
  enum class Kind : std::uint8_t { rsa, p256, p384, p521, ed25519 };
  struct Parsed;

  PublicKey(Kind kind, std::shared_ptr<const Parsed> key) : kind_(kind), key_(std::move(key)) {}

  Kind kind_;
  std::shared_ptr<const Parsed> key_;
};

}  // namespace evenkeel
