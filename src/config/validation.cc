#include "config/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "config/reachability.h"
#include "evenkeel/config/spelling.h"
#include "evenkeel/inference/engine.h"

namespace evenkeel::config_file {
namespace {

std::string line_of(const ParseContext& context, const std::string& path) {
  return fmt::format("line {}", context.mark_of(path).line);
}

// ---- names and addresses that are given twice

struct NamedItem {
  std::string path;
  std::string name;
};

void check_unique(const std::vector<NamedItem>& all, std::string_view what, ParseContext& context) {
  std::unordered_map<std::string, const std::string*> first;
  for (const auto& [path, name] : all) {
    if (context.report.has_problem(path)) continue;
    const auto [it, is_new] = first.emplace(name, &path);
    if (is_new) continue;
    context.add(path, fmt::format("duplicate {} '{}', the first is in {}", what, name,
                                  line_of(context, *it->second)));
  }
}

template <class T>
std::vector<NamedItem> names_of(std::string_view list, const std::vector<T>& values) {
  std::vector<NamedItem> names;
  for (const auto& [path, value] : items_of(list, values))
    names.push_back({path + ".name", value.name});
  return names;
}

void check_names(const Config& config, ParseContext& context) {
  for (const auto& [path, listener] : items_of("listeners", config.listeners)) {
    if (listener.name == "admin")
      context.add(path + ".name", "'admin' is the name of the admin listener");
  }
  check_unique(names_of("listeners", config.listeners), "listener name", context);
  check_unique(names_of("pools", config.pools), "pool name", context);
  for (const auto& [path, pool] : items_of("pools", config.pools)) {
    std::vector<NamedItem> backends;
    for (const auto& [place, backend] : items_of(path + ".backends", pool.backends))
      backends.push_back({path_of_address(context, place), to_string(backend.address)});
    check_unique(backends, "backend", context);
  }
}

// ---- tenants

// The message does not show the salt.
void check_salts(const std::vector<NamedItem>& salts, ParseContext& context) {
  std::unordered_map<std::string_view, const std::string*> first;
  for (const auto& [path, salt] : salts) {
    const auto [it, is_new] = first.emplace(salt, &path);
    if (is_new) continue;
    context.add(path,
                fmt::format("is that of the tenant in {}, so that both share cached prefixes",
                            line_of(context, *it->second)),
                "write another one, which `openssl rand -hex 16` makes");
  }
}

// A certificate is one tenant's.
void check_certificates(const Config& config, ParseContext& context) {
  const bool are_verified = std::ranges::any_of(config.listeners, [](const ListenerConfig& each) {
    return each.tls && !each.tls->client_ca.empty();
  });
  std::unordered_map<std::string_view, const TenantConfig*> first;  // by the name
  for (const auto& [path, tenant] : items_of("tenants", config.tenants)) {
    for (const auto& [place, name] : items_of(path + ".certificates", tenant.certificates)) {
      const TenantConfig& other = *first.emplace(name, &tenant).first->second;
      if (&other == &tenant) continue;
      context.add(place,
                  fmt::format("certificates with '{}' are of tenant '{}' already, and not of '{}'",
                              name, other.name, tenant.name),
                  "let one of the two have the name");
    }
    if (tenant.certificates.empty() || are_verified) continue;
    context.warn(path + ".certificates", "no listener verifies client certificates",
                 "add `client_ca` to the `tls` of a listener");
  }
}

// True if requests may be of tenants that have nothing in the file themselves.
bool are_named_elsewhere(const Config& config) {
  return (config.auth && (!config.auth->keys.file.empty() || !config.auth->jwt.empty())) ||
         std::ranges::any_of(config.listeners, [](const ListenerConfig& each) {
           return !each.tenant_header.empty();
         });
}

// Names of routes that are to be there.
void check_route_names(const std::string& path, const std::vector<std::string>& names,
                       const Config& config, ParseContext& context) {
  if (context.report.has_problem("routes")) return;
  for (const auto& [place, name] : items_of(path, names)) {
    if (std::ranges::find(config.routes, name, &RouteConfig::name) != config.routes.end()) continue;
    std::vector<std::string> routes;
    for (const RouteConfig& route : config.routes) routes.push_back(route.name);
    const auto meant = nearest_word(name, routes);
    context.add(place, fmt::format("there is no route '{}'", name),
                meant ? fmt::format("did you mean '{}'?", *meant) : "name one of `routes`");
  }
}

// The routes and methods that the tenant may use.
void check_scope(const std::string& path, const TenantConfig& tenant, const Config& config,
                 ParseContext& context) {
  const char* const key =
      !tenant.routes.empty() ? ".routes" : (!tenant.methods.empty() ? ".methods" : nullptr);
  if (key != nullptr && !config.auth) {
    context.add(path + key, "nothing keeps the tenant from others without `auth`",
                "add `auth: {}`, which refuses requests without a key, or remove the key");
  }
  check_route_names(path + ".routes", tenant.routes, config, context);
}

void check_tenants(const Config& config, ParseContext& context) {
  std::vector<NamedItem> keys;
  std::vector<NamedItem> salts;
  const bool named_elsewhere = are_named_elsewhere(config);
  for (const auto& [path, tenant] : items_of("tenants", config.tenants)) {
    if (tenant.name == "other") {
      context.add(path + ".name", "'other' are requests of no tenant, in the metrics");
    }
    for (const auto& [place, key] : items_of(path + ".keys_sha256", tenant.keys_sha256))
      keys.push_back({place, key});
    if (tenant.keys_sha256.empty() && tenant.certificates.empty() && !named_elsewhere) {
      context.warn(path, "no request can be of this tenant",
                   "add its keys_sha256 or certificates, or the tenant_header of a listener");
    }
    if (!tenant.cache_salt.empty()) salts.push_back({path + ".cache_salt", tenant.cache_salt});
    check_scope(path, tenant, config, context);
    if (!tenant.models.empty() && !config.auth) {
      context.add(path + ".models", "nothing keeps the tenant from other models without `auth`",
                  "add `auth: {}`, which refuses requests without a key, or remove the key");
    }
  }
  for (const auto& [path, limit] : items_of("rate_limits", config.rate_limits))
    check_route_names(path + ".routes", limit.routes, config, context);
  check_unique(names_of("tenants", config.tenants), "tenant name", context);
  check_unique(keys, "key", context);
  check_salts(salts, context);
  check_certificates(config, context);
  if (!config.tenants.empty() || context.report.has_problem("tenants")) return;
  for (const auto& [path, listener] : items_of("listeners", config.listeners)) {
    if (listener.tenant_header.empty()) continue;
    context.warn(path + ".tenant_header", "there are no tenants that it could name",
                 "add them to `tenants`");
  }
}

void check_tenants_of_issuer(const std::string& path, const TokenIssuerConfig& issuer,
                             const Config& config, ParseContext& context) {
  for (const auto& [place, name] : items_of(path + ".tenants", issuer.tenants)) {
    if (std::ranges::find(config.tenants, name, &TenantConfig::name) == config.tenants.end())
      context.add(place, fmt::format("there is no tenant '{}'", name), "name one of `tenants`");
  }
}

// Issuers are found by their names, and key sets by their URLs.
void check_issuers(const Config& config, ParseContext& context) {
  const std::vector<TokenIssuerConfig>& issuers = config.auth->jwt;
  std::vector<NamedItem> names;
  std::unordered_map<std::string_view, const TokenIssuerConfig*> first;  // by URL
  for (const auto& [path, issuer] : items_of("auth.jwt", issuers)) {
    names.push_back({path + ".issuer", issuer.issuer});
    if (!context.report.has_problem("tenants"))
      check_tenants_of_issuer(path, issuer, config, context);
    if (!issuer.fetches_keys()) continue;
    const TokenIssuerConfig& other = *first.emplace(issuer.jwks, &issuer).first->second;
    if (issuer.ca == other.ca && issuer.refresh == other.refresh) continue;
    context.add(path + ".jwks",
                fmt::format("the issuer '{}' has the same URL, but another `{}`", other.issuer,
                            issuer.ca != other.ca ? "ca" : "refresh"),
                "the URL is fetched once for both: give both the same");
  }
  check_unique(names, "issuer", context);
}

void check_auth(const Config& config, ParseContext& context) {
  if (config.auth) {
    check_issuers(config, context);
    if (!config.tenants.empty() || context.report.has_problem("tenants")) return;
    context.add("auth", "no request could have a key: there are no tenants",
                "add `tenants: [{name: NAME}]`");
    return;
  }
  for (const auto& [path, route] : items_of("routes", config.routes)) {
    if (!route.auth || context.report.has_problem(path + ".auth")) continue;
    context.add(path + ".auth", "has no meaning without `auth` in the file",
                "add `auth: {}` beside `routes`, or remove the key");
  }
}

// ---- ports

// True if one connection could go to either. [::] takes IPv4 connections, too.
bool overlap(const Address& a, const Address& b) {
  if (a.port == 0 || a.port != b.port) return false;
  const auto host = [](const Address& address) {
    const std::string name = normal_host(address.host);
    return name == "localhost" ? std::string{"127.0.0.1"} : name;
  };
  const auto takes = [&](const Address& wide, const Address& other) {
    const bool other_is_v6 = other.host.find(':') != std::string::npos;
    return is_wildcard(wide) && (wide.host != "0.0.0.0" || !other_is_v6);
  };
  if (takes(a, b) || takes(b, a)) return true;
  const auto a_ip = parse_ip(host(a));
  return a_ip ? a_ip == parse_ip(host(b)) : host(a) == host(b);
}

void check_ports(const Config& config, ParseContext& context) {
  std::vector<UsedAddress> all = listen_addresses(config, context);
  // The problem is reported at the later one; defaults, which are not in the file, come first.
  const auto place = [&](const UsedAddress& bound) {
    const auto found = context.marks.find(bound.path);
    return std::pair{found == context.marks.end() ? 0 : found->second.line, bound.path};
  };
  std::ranges::sort(
      all, [&](const UsedAddress& a, const UsedAddress& b) { return place(a) < place(b); });
  std::unordered_map<std::uint16_t, std::vector<const UsedAddress*>> earlier;  // by port
  for (const UsedAddress& bound : all) {
    std::vector<const UsedAddress*>& same_port = earlier[bound.address.port];
    const auto taken = std::ranges::find_if(same_port, [&](const UsedAddress* other) {
      return overlap(other->address, bound.address);
    });
    if (taken != same_port.end()) {
      context.add(bound.path,
                  fmt::format("port {} is taken by {} on {}", bound.address.port, (*taken)->owner,
                              to_string((*taken)->address)),
                  "give one of them another port");
    }
    same_port.push_back(&bound);
  }
}

// ---- routes and pools

std::string path_of_target(const ParseContext& context, const std::string& path,
                           const std::string& pool) {
  return context.marks.count(path + ".pool") > 0 ? path + ".pool" : path + ".split." + pool;
}

// The nearest of thousands of names takes a while, and is worth it only where it is shown.
std::optional<std::string> meant_pool(const std::string& name,
                                      const std::vector<std::string>& pools,
                                      const ParseContext& context) {
  if (context.report.size() >= Report::max_listed) return std::nullopt;
  return nearest_word(name, pools);
}

// The pools of the file, and which of them something leads to.
class PoolUses {
 public:
  explicit PoolUses(const Config& config) {
    for (std::size_t i = 0; i < config.pools.size(); ++i) {
      const std::string& name = config.pools[i].name;
      if (!name.empty() && indices_.emplace(name, i).second) names_.push_back(name);
    }
  }

  // Returns false if there is no such pool, which is to be reported.
  bool use(const std::string& name) {
    used_.insert(name);
    return indices_.contains(name);
  }
  // The pool that was probably meant counts as used.
  void add_unknown(const std::string& path, const std::string& name, ParseContext& context) {
    const auto meant = meant_pool(name, names_, context);
    if (meant) used_.insert(*meant);
    const bool is_selector = name.find('=') != std::string::npos;
    context.add(path, fmt::format("there is no pool '{}'", name),
                meant            ? fmt::format("did you mean '{}'?", *meant)
                : is_selector    ? "to split by labels, name the pool: 'pool: NAME' beside 'split'"
                : names_.empty() ? "add it to 'pools'"
                                 : list_of("the pools are", names_));
  }
  bool uses(const std::string& name) const { return used_.contains(name); }
  // The position of each name in the file.
  const std::unordered_map<std::string, std::size_t>& indices() const { return indices_; }

 private:
  std::unordered_map<std::string, std::size_t> indices_;
  std::vector<std::string> names_;
  std::unordered_set<std::string> used_;
};

// Targets and mirrors of routes are pools.
void check_targets(const Config& config, PoolUses& pools, ParseContext& context) {
  for (const auto& [path, route] : items_of("routes", config.routes)) {
    for (const auto& target : route.targets) {
      if (target.pool.empty()) continue;  // the implied route to a pool without a name
      if (!pools.use(target.pool))
        pools.add_unknown(path_of_target(context, path, target.pool), target.pool, context);
    }
    const std::string& mirror = route.mirror.pool;
    if (mirror.empty() || context.report.has_problem(path + ".mirror")) continue;
    if (!pools.use(mirror)) pools.add_unknown(path + ".mirror", mirror, context);
    if (std::ranges::find(route.targets, mirror, &RouteTarget::pool) == route.targets.end())
      continue;
    context.warn(
        path + ".mirror",
        fmt::format("the pool '{}' gets requests twice: it is the route's own, too", mirror),
        "name another pool, or remove the mirror");
  }
}

// The pools of endpoint pickers are there.
void check_picker_pools(const Config& config, PoolUses& pools, ParseContext& context) {
  for (const auto& [path, listener] : items_of("listeners", config.listeners)) {
    if (!listener.endpoint_picker || listener.endpoint_picker->pool.empty()) continue;
    const std::string& pool = listener.endpoint_picker->pool;
    if (!pools.use(pool)) pools.add_unknown(path + ".endpoint_picker.pool", pool, context);
  }
}

// True if requests come that a route has to take.
bool needs_routes(const Config& config) {
  return std::ranges::any_of(config.listeners, [](const ListenerConfig& listener) {
    const bool has_pool = listener.endpoint_picker && !listener.endpoint_picker->pool.empty();
    return !has_pool && !listener.scaler;
  });
}

// "a -> b -> c -> a"
std::string text_of_cycle(const std::vector<std::string_view>& cycle) {
  constexpr std::size_t max_listed = 20;
  const std::span listed(cycle.data(), std::min(cycle.size(), max_listed));
  return fmt::format("{} ->{} {}", fmt::join(listed, " -> "),
                     listed.size() < cycle.size() ? " ... ->" : "", cycle.front());
}

// Each cycle once, at its pool that comes first in the file. `pools`: the index of each name.
void check_fallback_cycles(const Config& config,
                           const std::unordered_map<std::string, std::size_t>& pools,
                           ParseContext& context) {
  constexpr std::size_t none = ~std::size_t{0};
  const auto next_of = [&](std::size_t pool) {
    const std::string& fallback = config.pools[pool].fallback.pool;
    const auto next = fallback.empty() ? pools.end() : pools.find(fallback);
    return next == pools.end() ? none : next->second;
  };
  std::vector<std::size_t> walks(config.pools.size(), none);  // the first one that came by
  for (std::size_t start = 0; start < config.pools.size(); ++start) {
    std::size_t at = start;
    while (at != none && walks[at] == none) {
      walks[at] = start;
      at = next_of(at);
    }
    if (at == none || walks[at] != start) continue;
    std::vector<std::size_t> cycle{at};
    for (std::size_t i = next_of(at); i != at; i = next_of(i)) cycle.push_back(i);
    std::ranges::rotate(cycle, std::ranges::min_element(cycle));
    std::vector<std::string_view> names;
    for (const std::size_t pool : cycle) names.push_back(config.pools[pool].name);
    context.add(indexed("pools", cycle.front()) + ".fallback",
                fmt::format("the fallbacks form a cycle: {}", text_of_cycle(names)),
                "remove one of them: the last pool has no fallback");
  }
}

// Fallbacks are pools, and following them ends.
void check_fallbacks(const Config& config, PoolUses& pools, ParseContext& context) {
  for (const auto& [path, pool] : items_of("pools", config.pools)) {
    const std::string& fallback = pool.fallback.pool;
    if (fallback.empty() || context.report.has_problem(path + ".fallback")) continue;
    if (!pools.use(fallback)) pools.add_unknown(path + ".fallback", fallback, context);
  }
  check_fallback_cycles(config, pools.indices(), context);
}

void check_match_listeners(const Config& config, const std::string& path, const RouteMatch& match,
                           ParseContext& context) {
  for (const auto& [place, name] : items_of(path + ".listener", match.listener)) {
    const auto found = std::ranges::find(config.listeners, name, &ListenerConfig::name);
    if (found != config.listeners.end()) continue;
    std::vector<std::string> names;
    for (const ListenerConfig& each : config.listeners) names.push_back(each.name);
    const bool is_list = context.marks.contains(place);
    context.add(is_list ? place : path + ".listener",
                fmt::format("there is no listener '{}'", name),
                list_of("the listeners are", names));
  }
}

// True if what the redirect leads to comes to the same route, as far as paths tell.
bool leads_to_itself(const RouteConfig& route) {
  const RouteMatch& match = route.match;
  if (!route.redirect || !route.redirect->to.starts_with('/')) return false;
  if (!match.query.empty() || !match.path_regex.empty() || !match.none_of.empty()) return false;
  return path_covers(match.path, route.redirect->to.substr(0, route.redirect->to.find('?')));
}

void check_matches_and_redirects(const Config& config, ParseContext& context) {
  for (const auto& [path, route] : items_of("routes", config.routes)) {
    if (context.report.has_problem(path)) continue;
    check_match_listeners(config, path + ".match", route.match, context);
    for (const auto& [place, each] : items_of(path + ".match.not", route.match.none_of)) {
      const bool is_list = context.marks.contains(place);
      check_match_listeners(config, is_list ? place : path + ".match.not", each, context);
    }
    if (leads_to_itself(route)) {
      context.add(path + ".redirect.to", "leads clients to the same route again",
                  "write another path, or a URL with another host");
    }
  }
}

void check_reachability(const Config& config, ParseContext& context) {
  CoverIndex index;
  for (std::size_t route = 0; route < config.routes.size(); ++route) {
    if (context.report.has_problem(indexed("routes", route) + ".match")) continue;
    const RouteMatch& match = config.routes[route].match;
    const auto earlier = index.first_cover(match);
    if (!earlier) {
      index.add(route, match);
      continue;
    }
    // Not added: whatever it hides, the earlier one hides, too.
    const std::string path = indexed("routes", *earlier);
    context.warn(indexed("routes", route),
                 fmt::format("never reached: {} in {} matches everything that this does", path,
                             line_of(context, path)),
                 "the first match wins: put the narrower route first");
  }
}

// True if the text is right as a path, and probably meant as a regular expression or a template.
bool looks_like_a_regex(const std::string& path) {
  return path.ends_with('$') || path.find_first_of("^|[]{}") != path.npos;
}

// nginx and others take a path that ends in '/' for a prefix.
void warn_of_exact_paths(const Config& config, ParseContext& context) {
  for (const auto& [route, config_of_route] : items_of("routes", config.routes)) {
    const std::string& path = config_of_route.match.path;
    const std::string key = route + ".match.path";
    if (looks_like_a_regex(path)) {
      context.warn(key,
                   fmt::format("'{}' is compared as it stands, not as a regular expression", path),
                   "write '*' for any one segment, '**' at the end for all the rest");
      continue;
    }
    if (!path.ends_with('/')) continue;
    context.warn(key, fmt::format("matches exactly '{}'", path),
                 fmt::format("write '{}**' to match every path below it, too", path));
  }
}

// The field by which requests tell their session; empty: none does.
std::string_view field_of_session(std::string_view source) {
  constexpr std::string_view header = "header:";
  if (source.starts_with("cookie")) return "cookie";
  return source.starts_with(header) ? source.substr(header.size()) : std::string_view();
}

// Routes change fields before their pool looks for sessions in them.
void warn_of_lost_sessions(const Config& config, ParseContext& context) {
  for (const auto& [path, route] : items_of("routes", config.routes)) {
    const FieldEdits& edits = route.request_headers;
    if (edits.empty()) continue;
    for (const PoolConfig& pool : config.pools) {
      const auto affinity = affinity_of(pool);
      const bool is_target =
          std::ranges::find(route.targets, pool.name, &RouteTarget::pool) != route.targets.end();
      if (!affinity || !is_target) continue;
      for (const std::string& source : affinity->by) {
        const std::string field(field_of_session(source));
        const bool is_removed = std::ranges::find(edits.remove, field) != edits.remove.end();
        if (field.empty() || (!is_removed && !edits.set.contains(field))) continue;
        context.warn(
            path + ".request_headers",
            fmt::format("changes '{}', by which the pool '{}' keeps sessions", field, pool.name),
            "requests by this route have no session of the client");
      }
    }
  }
}

void check_routes(const Config& config, ParseContext& context) {
  PoolUses pools(config);
  check_picker_pools(config, pools, context);
  if (config.routes.empty()) {
    check_fallbacks(config, pools, context);
    if (needs_routes(config) && config.pools.size() > 1 && !context.report.has_problem("routes")) {
      context.report.add(
          context.mark_of("pools"), "routes",
          fmt::format("missing, and there are {} pools: which one answers a request?",
                      config.pools.size()),
          "add routes: [{match: {path: /v1/**}, pool: NAME}, ...]");
    }
    return;
  }
  check_targets(config, pools, context);
  check_fallbacks(config, pools, context);
  for (const auto& [path, pool] : items_of("pools", config.pools)) {
    if (pool.name.empty() || pools.uses(pool.name)) continue;
    context.warn(path + ".name", fmt::format("no route leads to the pool '{}'", pool.name),
                 "add a route to it, or remove it");
  }
  check_splits(config, context);
  check_matches_and_redirects(config, context);
  check_reachability(config, context);
  warn_of_exact_paths(config, context);
  warn_of_lost_sessions(config, context);
}

// ---- health checks and polls

void check_health(const Config& config, ParseContext& context) {
  for (const auto& [pool_path, pool] : items_of("pools", config.pools)) {
    const HealthCheckKind check = pool.health.check;
    const std::string path = pool_path + ".health.model";
    if (pool.health.model == ModelCheck::off || context.report.has_problem(path)) continue;
    const bool generates = pool.health.model == ModelCheck::generate;
    const EngineHealth& engine = engine_named(pool.engine).health;
    const bool over_grpc = check == HealthCheckKind::grpc ||
                           (check == HealthCheckKind::automatic && engine.serves_kserve_grpc &&
                            pool.protocol == BackendProtocol::http2);
    if (pool.models.empty()) {
      context.add(path, "the pool has no models to check for", "list them in its `models`");
    } else if (check == HealthCheckKind::tcp || check == HealthCheckKind::off) {
      context.add(path, "this `check` does not look at models",
                  "use `check: auto`, or remove `model`");
    } else if (generates && engine.token == TokenProbe::none) {
      context.add(path,
                  fmt::format("with {}, the request that generates a token depends on the model",
                              pool.engine),
                  "take `model: required`");
    } else if (generates && over_grpc) {
      context.add(path, "tokens are generated over HTTP, and these checks are gRPC calls",
                  "take `model: required`");
    }
  }
}

void check_metrics(const Config& config, ParseContext& context) {
  for (const auto& [path, pool] : items_of("pools", config.pools)) {
    const std::string_view consumed = engine_named(pool.engine).metrics.consumed_path;
    if (consumed.empty() || pool.metrics.path != consumed) continue;
    context.add(path + ".metrics.path",
                fmt::format("reading {} of {} takes its data away from other readers", consumed,
                            pool.engine),
                "leave `path` out: the engine's Prometheus page is used then");
  }
}

}  // namespace

std::string indexed(std::string_view list, std::size_t index) {
  return fmt::format("{}[{}]", list, index);
}

std::string path_of_address(const ParseContext& context, const std::string& path) {
  return context.marks.contains(path + ".address") ? path + ".address" : path;
}

std::vector<UsedAddress> listen_addresses(const Config& config, const ParseContext& context) {
  std::vector<UsedAddress> all;
  for (const auto& [path, listener] : items_of("listeners", config.listeners)) {
    all.push_back(
        {path + ".address", fmt::format("listener '{}'", listener.name), listener.address});
  }
  all.push_back({"admin.address", "the admin listener", config.admin.address});
  std::erase_if(all,
                [&](const UsedAddress& used) { return context.report.has_problem(used.path); });
  return all;
}

bool is_wildcard(const Address& address) {
  return address.host == "0.0.0.0" || parse_ip(address.host) == IpBytes{};
}

std::string list_of(std::string_view what, const std::vector<std::string>& names) {
  constexpr std::size_t max_listed = 20;
  const std::span listed(names.data(), std::min(names.size(), max_listed));
  const std::string text = fmt::format("{} {}", what, fmt::join(listed, ", "));
  return names.size() <= max_listed
             ? text
             : fmt::format("{} and {} more", text, names.size() - max_listed);
}

void validate_config(const Config& config, ParseContext& context) {
  check_names(config, context);
  check_tenants(config, context);
  check_auth(config, context);
  check_ports(config, context);
  check_routes(config, context);
  check_health(config, context);
  check_metrics(config, context);
  check_models(config, context);
  check_effects(config, context);
  check_prices(config, context);
  check_environment(config, context);
}

}  // namespace evenkeel::config_file
