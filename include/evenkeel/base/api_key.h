// What a request knows of the API key, or the signed token, by which its tenant is known.
#pragma once

#include <string>
#include <vector>

namespace evenkeel {

/// An API key without its secret, as people and logs know it; or what a token stands for.
struct ApiKey {
  std::string id;  ///< the first 8 hexadecimal digits of its SHA-256; of a token: of its subject's
  std::string name;  ///< empty: it has none; of a token: its subject
  std::vector<std::string>
      models;  ///< what it may use, names and globs; empty: what its tenant may
};

}  // namespace evenkeel
