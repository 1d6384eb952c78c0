// JSON Web Tokens that an issuer has signed (RFC 7519), verified as RFC 8725 advises.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "evenkeel/json/value.h"
#include "evenkeel/net/jwk_set.h"

namespace evenkeel {

/// What the tokens of an issuer must be, and which of their claims are given back.
struct JwtRules {
  std::string issuer;                  ///< `iss`
  std::vector<std::string> audiences;  ///< `aud` names one of them; empty: any, or none
  std::string type;                    ///< `typ`, such as "at+jwt"; empty: any, or none
  std::chrono::seconds leeway{};       ///< by which the issuer's clock may differ
  /// Where claims are. A dot leads into an object, unless the name of a claim has it. Empty: they
  /// are not given back.
  std::string tenant_claim;
  std::vector<std::string> tenants;  ///< the only ones that are given back; empty: all are
  std::string models_claim;
};

/// What a token says.
struct JwtClaims {
  std::string issuer;   ///< `iss`
  std::string subject;  ///< `sub`; empty: it has none
  double expires = 0;   ///< `exp`, in seconds since 1970
  /// The text of the tenant claim, or the texts of its list; empty: the token does not have it.
  std::vector<std::string> tenants;
  /// The words of the models claim, or the texts of its list; nothing: the token does not have it.
  std::optional<std::vector<std::string>> models;

  bool operator==(const JwtClaims&) const = default;
};

/// Why a token is refused.
enum class JwtRefusal : std::uint8_t {
  too_long,
  malformed,     ///< no signed token, or a claim of another type than RFC 7519 has
  algorithm,     ///< none that is allowed, such as `none` and those with a shared secret
  critical,      ///< an extension that has to be understood
  type,          ///< `typ`
  no_keys,       ///< those of its issuer are not there yet
  unknown_key,   ///< no key of the set has its `kid`, or is for its algorithm
  signature,     ///< not by any of these keys
  issuer,        ///< `iss`
  audience,      ///< `aud`
  expired,       ///< `exp`
  not_yet_valid  ///< `nbf`, or `iat` is in the future
};
inline constexpr std::size_t jwt_refusal_count = 12;

/// What is wrong, such as "token has expired": for the log and for the client.
std::string_view to_string(JwtRefusal refusal);

/// A token as it was sent: nothing of it may be relied on until `verify` has accepted it. Views the
/// text, which outlives it.
class Jwt {
 public:
  static constexpr std::size_t max_bytes = 8 * 1024;
  /// How many keys are tried where the token does not name one.
  static constexpr std::size_t max_tried_keys = 16;

  static std::variant<Jwt, JwtRefusal> parse(std::string_view text);

  /// `iss`, by which the rules and the keys can be found; empty: it has none.
  const std::string& claimed_issuer() const { return payload_["iss"].text(); }

  /// `now`: seconds since 1970.
  std::variant<JwtClaims, JwtRefusal> verify(const JwkSet& keys, const JwtRules& rules,
                                             double now) const;

 private:
  Jwt() = default;

  std::optional<JwtRefusal> check_header(const JwtRules& rules) const;
  std::optional<JwtRefusal> check_signature(const JwkSet& keys) const;
  std::optional<JwtRefusal> check_claims(const JwtRules& rules, double now) const;

  std::string_view signed_text_;  // header and payload, with the dot between them
  std::string signature_;
  SignatureAlgorithm algorithm_{};
  JsonValue header_;
  JsonValue payload_;
};

/// Parses and verifies. `now`: seconds since 1970. Takes about as long as the signature does,
/// unless the token is refused before.
std::variant<JwtClaims, JwtRefusal> verify_jwt(std::string_view token, const JwkSet& keys,
                                               const JwtRules& rules, double now);

}  // namespace evenkeel
