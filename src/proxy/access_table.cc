#include "proxy/access_table.h"

#include <algorithm>

#include "evenkeel/http/cors.h"

namespace evenkeel {
AccessTable::AccessTable(const Config& config, const RouteTable& routes, Tenants& tenants)
    : routes_(routes), tenants_(tenants) {
  for (const RouteConfig& route : config.routes) {
    rules_.push_back({.auth = route.auth.value_or(AuthRule::required),
                      .by_body = route.match.looks_into_body()});
  }
}

AuthRule AccessTable::rule_of(const Request& request) const {
  // A preflight has no credential, whatever the request will have; one with a body is none.
  if (!preflighted_method(request).empty() && request.body == nullptr) return AuthRule::off;
  const Routing& routing = request.info.identity.routing;
  switch (routing.state) {
    case RouteState::routed:
    case RouteState::fixed: return rules_[routing.route].auth;
    case RouteState::listed: {
      const auto choice = routes_.find(request);
      return choice ? rules_[choice->index].auth : AuthRule::required;
    }
    case RouteState::open: return least_strict(request);
    case RouteState::shed: return AuthRule::off;  // it is refused anyway
    case RouteState::none: break;
  }
  return AuthRule::required;
}

/// Looks at the routes that an open request may still get, up to the first that takes it whatever
/// its body says.
AuthRule AccessTable::least_strict(const Request& request) const {
  AuthRule least = AuthRule::required;
  routes_.first_by_head(request, [&](std::size_t route) {
    least = std::min(least, rules_[route].auth);
    return least == AuthRule::off || !rules_[route].by_body;
  });
  return least;
}

CredentialState AccessTable::credential_of(const Request& request) const {
  const bool is_accepted = !request.info.identity.tenant.name.empty();
  return is_accepted ? CredentialState::accepted : tenants_.state_of_keys(request);
}

}  // namespace evenkeel
