#include "proxy/access_table.h"

#include <algorithm>

#include "evenkeel/base/utf8.h"
#include "evenkeel/http/cors.h"

namespace evenkeel {
AccessTable::AccessTable(const Config& config, const RouteTable& routes, Tenants& tenants)
    : routes_(routes), tenants_(tenants) {
  for (const RouteConfig& route : config.routes) {
    rules_.push_back({.auth = route.auth.value_or(AuthRule::required),
                      .by_body = route.match.looks_into_body()});
  }
  for (const TenantConfig& tenant : config.tenants) {
    if (tenant.routes.empty() && tenant.methods.empty()) continue;
    Scope& scope = scopes_[tenant.name];
    scope.methods = &tenant.methods;
    if (tenant.routes.empty()) continue;
    for (const RouteConfig& route : config.routes)
      scope.routes.push_back(std::ranges::find(tenant.routes, route.name) != tenant.routes.end());
  }
}

AuthRule AccessTable::rule_of(const Request& request) const {
  // A preflight has no credential, whatever the request will have; one with a body is none.
  if (!preflighted_method(request).empty() && request.body == nullptr) return AuthRule::off;
  const Routing& routing = request.info.identity.routing;
  switch (routing.state) {
    case RouteState::routed:
    case RouteState::fixed:
    case RouteState::listed: {
      const auto route = route_of(request);
      return route && routes_.is_of_file(*route) ? rules_[*route].auth : AuthRule::required;
    }
    case RouteState::open: return least_strict(request);
    case RouteState::shed: return AuthRule::off;  // it is refused anyway
    case RouteState::none: break;
  }
  return AuthRule::required;
}

/// The route of a request, as far as it is known.
std::optional<std::size_t> AccessTable::route_of(const Request& request) const {
  const Routing& routing = request.info.identity.routing;
  if (routing.state == RouteState::routed || routing.state == RouteState::fixed)
    return routing.route;
  if (routing.state != RouteState::listed) return std::nullopt;
  const auto choice = routes_.find(request);
  return choice ? std::optional(choice->index) : std::nullopt;
}

std::string AccessTable::denial_of(const Request& request) const {
  if (scopes_.empty()) [[likely]]
    return {};
  const auto found = scopes_.find(request.info.identity.tenant.name);
  if (found == scopes_.end()) return {};
  const auto& [routes, methods] = found->second;
  if (!methods->empty() && std::ranges::find(*methods, request.method) == methods->end())
    return "this client may not use the method " + printable_utf8(request.method);
  const auto route = route_of(request);
  const bool may_use = routes.empty() || !route || (routes_.is_of_file(*route) && routes[*route]);
  if (may_use) return {};
  return "this client may not use this path: it is of the route '" +
         printable_utf8(routes_.name_of(*route)) + "'";
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
