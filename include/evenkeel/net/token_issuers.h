// The issuers of tokens that clients prove their tenant with.
#pragma once

#include <atomic>
#include <map>
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

/// Sets of keys that were fetched, by their URLs.
using KeySets = std::map<std::string, std::shared_ptr<const JwkSet>>;

/// Verifies tokens by the keys of the issuers that a file names. Immutable. Thread: any.
class TokenIssuers {
 public:
  /// Reads the files of keys; blocks. Issuers whose keys are fetched have none yet. Errors name the
  /// file.
  static Result<std::shared_ptr<const TokenIssuers>> read(
      const std::vector<TokenIssuerConfig>& configs);

  /// The same issuers, with keys that were fetched.
  std::shared_ptr<const TokenIssuers> with(const KeySets& fetched) const;
  /// The URLs whose keys a token has lacked since the last call. Several objects that come from one
  /// by `with` share them.
  std::vector<std::string> take_wanted() const;

  /// What is wrong with a file of keys; nothing: it can be read.
  static std::optional<std::string> problem_of(const std::string& jwks);

  /// What a token says, by the rules of the issuer that it claims; `expires` with its leeway.
  /// `now`: seconds since 1970. A signature takes 30 to 700 us.
  std::variant<JwtClaims, JwtRefusal> verify(std::string_view token, double now) const;

 private:
  struct Issuer {
    JwtRules rules;
    std::shared_ptr<const JwkSet> keys;            // null: they are not there yet
    std::string url;                               // where they are fetched; empty: nowhere
    std::shared_ptr<std::atomic<bool>> lacks_key;  // a token has had one that is unknown
  };

  std::vector<Issuer> issuers_;
};

}  // namespace evenkeel
