// The routes that the locations of nginx's servers stand for.
#pragma once

#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "import/draft.h"
#include "import/nginx_keys.h"
#include "import/nginx_limits.h"
#include "import/nginx_pools.h"

namespace evenkeel::import {

/// What a location takes, as routes can say it.
struct NginxReach {
  std::string path;      ///< of the route; empty: every one
  std::string regex;     ///< of the route, in place of the path; empty: none
  bool is_said = false;  ///< else the path takes more

  RouteMatch match() const { return {.path = path, .path_regex = regex}; }
};

/// What a path that matches the regular expression may be.
NginxReach reach_of_regex(std::string_view regex, bool ignores_case = false);

class NginxLocations {
 public:
  NginxLocations(Draft& draft, NginxPools& pools, NginxLimits& limits, NginxKeys& keys)
      : draft_(draft), pools_(pools), limits_(limits), keys_(keys) {}

  /// The routes of a server without hosts, in the order in which nginx chooses. The last one takes
  /// all that is left. What routes cannot say is answered by evenkeel itself.
  std::vector<PlacedRoute> routes_of(const NginxScope& server);

 private:
  /// `final_prefix`: as or below a location with `^~`, for which no regular expression is tried.
  enum class Rank { prefix, regex, final_prefix, exact };
  struct Location {
    const NginxScope* scope = nullptr;
    Rank rank = Rank::prefix;
    std::string_view path;
    NginxReach reach;
    bool is_final = false;   ///< has `^~`
    std::size_t number = 0;  ///< in the order of the file
  };

  /// The rules of a location that its route says itself.
  struct SaidRules {
    std::vector<Network> clients;  // that may pass; none: no rule says which
    std::optional<RewriteConfig> rewrite;
    std::vector<const NginxDirective*> key_checks;
  };

  static NginxDirective* other_rule_of(const NginxScope& location, const SaidRules& said);
  static bool branches(const NginxScope& location, const SaidRules& said);
  void collect(const NginxScope& outer);
  void rank_final_prefixes();
  void add_routes(const Location& location, std::vector<PlacedRoute>& routes);
  PlacedRoute route_of(const Location& location, const SaidRules& said);
  std::optional<RouteConfig> passing(const Location& location, const SaidRules& said);
  PlacedRoute closed(const NginxReach& reach, int status, const NginxDirective& why, int line);
  RouteConfig returned(const NginxReach& reach, NginxDirective& directive);
  void add_rewrites(const NginxScope& server, std::vector<PlacedRoute>& routes);
  void warn_of_rest(const Location& location, const PlacedRoute& route);

  Draft& draft_;
  NginxPools& pools_;
  NginxLimits& limits_;
  NginxKeys& keys_;
  std::list<NginxScope> scopes_;
  std::vector<Location> locations_;
};

}  // namespace evenkeel::import
