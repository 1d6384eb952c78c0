// Sets of public keys that verify tokens (JWKS, RFC 7517).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/net/public_key.h"

namespace evenkeel {

/// A key of a set.
struct Jwk {
  std::string id;                               ///< `kid`; empty: it has none
  std::optional<SignatureAlgorithm> algorithm;  ///< `alg`, the only one that it is for
  PublicKey key;

  /// True if the key may verify signatures of the algorithm.
  bool fits(SignatureAlgorithm wanted) const {
    return key.fits(wanted) && algorithm.value_or(wanted) == wanted;
  }
};

/// The keys of an issuer that verify signatures. Immutable.
class JwkSet {
 public:
  static constexpr std::size_t max_bytes = 256 * 1024;
  static constexpr std::size_t max_keys = 256;

  /// Reads the JSON document of a set. Leaves out keys that are not for verifying signatures, of
  /// types, curves and algorithms that are not known here. Errors: bad_request, with the key and
  /// what is wrong: a set with a private or a shared key, with a weak or a broken one, with none
  /// that is of use, or not a set at all.
  static Result<JwkSet> parse(std::string_view text);
  /// Reads a set that its issuer has published. Leaves out those keys too for which `parse` refuses
  /// the set, so that others can be withdrawn beside them; a set without any key withdraws all.
  /// Errors: bad_request: no set.
  static Result<JwkSet> parse_published(std::string_view text);

  const std::vector<Jwk>& keys() const { return keys_; }
  /// Why the first key was left out that `parse` would refuse; empty: there was none.
  const std::string& first_problem() const { return first_problem_; }

 private:
  static Result<JwkSet> read(std::string_view text);

  std::vector<Jwk> keys_;
  std::string first_problem_;
};

}  // namespace evenkeel
