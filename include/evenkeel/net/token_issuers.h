// The issuers of tokens that clients prove their tenant with.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/config/config.h"
#include "evenkeel/net/jwk_set.h"
#include "evenkeel/net/jwt.h"

namespace evenkeel {

/// Verifies tokens by the keys of the issuers that a file names. Immutable. Thread: any.
class TokenIssuers {
 public:
  /// Reads the files of keys; blocks. Errors name the file.
  static Result<std::shared_ptr<const TokenIssuers>> read(
      const std::vector<TokenIssuerConfig>& configs);

  /// What is wrong with a file of keys; nothing: it can be read.
  static std::optional<std::string> problem_of(const std::string& jwks);

  /// What a token says, by the rules of the issuer that it claims; `expires` with its leeway.
  /// `now`: seconds since 1970. A signature takes 30 to 700 us.
  std::variant<JwtClaims, JwtRefusal> verify(std::string_view token, double now) const;

 private:
  struct Issuer {
    JwtRules rules;
    JwkSet keys;
  };

  std::vector<Issuer> issuers_;
};

}  // namespace evenkeel
