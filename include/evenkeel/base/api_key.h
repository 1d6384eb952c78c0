// What a request knows of the API key by which its tenant is known.
#pragma once

#include <string>
#include <vector>

namespace evenkeel {

/// An API key without its secret, as people and logs know it.
struct ApiKey {
  std::string id;    ///< the first 8 hexadecimal digits of its SHA-256
  std::string name;  ///< empty: it has none
  std::vector<std::string>
      models;  ///< what it may use, names and globs; empty: what its tenant may
};

}  // namespace evenkeel
