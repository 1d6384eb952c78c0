// What a request knows of the API key, the signed token, or the client certificate by which its
// tenant is known.
#pragma once

#include <string>
#include <vector>

namespace evenkeel {

/// An API key without its secret, as people and logs know it; or what a token or a certificate
/// stands for.
struct ApiKey {
  /// The first 8 hexadecimal digits of its SHA-256; of a token: of its subject's; of a certificate:
  /// of its name's.
  std::string id;
  std::string name;  ///< empty: it has none; of a token: its subject; of a certificate: its name
  std::vector<std::string>
      models;  ///< what it may use, names and globs; empty: what its tenant may
};

}  // namespace evenkeel
