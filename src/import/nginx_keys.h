// Keys that nginx's conditions compare with texts, as the API keys of a tenant.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "import/draft.h"
#include "import/nginx_pools.h"
#include "import/nginx_syntax.h"

namespace evenkeel::import {

/// The keys of a file: ours are all of one tenant, so that only conditions which let in the same
/// keys are taken over.
class NginxKeys {
 public:
  /// Reads the maps of the file.
  NginxKeys(Draft& draft, NginxDirective& root);

  /// The conditions of a location that refuse requests without a key, if ours can say them.
  std::vector<const NginxDirective*> checks_of(const NginxScope& location);
  /// True if the variable of a `map` tells the keys apart, and is empty without one. The map counts
  /// as used then.
  bool tells_apart(std::string_view variable);
  /// Adds the tenant, and lets routes need no key that need none in the file. `routes`: those that
  /// need one have `AuthRule::required`.
  void finish(const std::vector<std::vector<PlacedRoute>*>& routes);

 private:
  using Keys = std::set<std::string>;

  /// `map $http_authorization $name { default ...; "Bearer KEY" VALUE; }`.
  struct Map {
    NginxDirective* directive = nullptr;
    std::string standard;                                      // the value by default
    std::vector<std::pair<std::string, std::string>> entries;  // keys and their values
  };

  void find_maps(NginxDirective& block);
  std::optional<Keys> keys_of(const NginxDirective& condition, const NginxScope& location);
  std::optional<Keys> keys_in_map(std::string_view variable, bool is_equal, std::string_view value);

  Draft& draft_;
  std::map<std::string, Map, std::less<>> maps_;  // by variable
  Keys keys_;
  int line_ = 0;  // of the first condition
};

}  // namespace evenkeel::import
