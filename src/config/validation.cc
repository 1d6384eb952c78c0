#include "config/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "config/reachability.h"
#include "evenkeel/config/engine_traits.h"
#include "evenkeel/config/spelling.h"

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

void check_names(const Config& config, ParseContext& context) {
  std::vector<NamedItem> listeners;
  for (std::size_t i = 0; i < config.listeners.size(); ++i) {
    const std::string path = indexed("listeners", i) + ".name";
    listeners.push_back({path, config.listeners[i].name});
    if (config.listeners[i].name == "admin") {
      context.add(path, "'admin' is the name of the admin listener");
    }
  }
  check_unique(listeners, "listener name", context);

  std::vector<NamedItem> pools;
  pools.reserve(config.pools.size());
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    pools.push_back({indexed("pools", i) + ".name", config.pools[i].name});
  }
  check_unique(pools, "pool name", context);

  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    std::vector<NamedItem> backends;
    backends.reserve(config.pools[i].backends.size());
    for (std::size_t j = 0; j < config.pools[i].backends.size(); ++j) {
      backends.push_back(
          {path_of_backend(context, i, j), to_string(config.pools[i].backends[j].address)});
    }
    check_unique(backends, "backend", context);
  }
}

// ---- tenants

void check_tenants(const Config& config, ParseContext& context) {
  std::vector<NamedItem> names;
  std::vector<NamedItem> keys;
  const bool named_by_proxies = std::ranges::any_of(
      config.listeners, [](const ListenerConfig& each) { return !each.tenant_header.empty(); });
  for (std::size_t i = 0; i < config.tenants.size(); ++i) {
    const TenantConfig& tenant = config.tenants[i];
    const std::string path = indexed("tenants", i);
    names.push_back({path + ".name", tenant.name});
    if (tenant.name == "other") {
      context.add(path + ".name", "'other' are requests of no tenant, in the metrics");
    }
    for (std::size_t j = 0; j < tenant.keys_sha256.size(); ++j)
      keys.push_back({indexed(path + ".keys_sha256", j), tenant.keys_sha256[j]});
    if (tenant.keys_sha256.empty() && !named_by_proxies) {
      context.warn(path, "no request can be of this tenant",
                   "add its keys_sha256, or the tenant_header of a listener");
    }
  }
  check_unique(names, "tenant name", context);
  check_unique(keys, "key", context);
  for (std::size_t i = 0; i < config.listeners.size(); ++i) {
    const std::string path = indexed("listeners", i) + ".tenant_header";
    if (config.listeners[i].tenant_header.empty() || !config.tenants.empty()) continue;
    if (context.report.has_problem("tenants")) continue;
    context.warn(path, "there are no tenants that it could name", "add them to `tenants`");
  }
}

// ---- ports

struct BoundAddress {
  std::string path;
  std::string owner;
  Address address;
};

// True if one connection could go to either. [::] takes IPv4 connections, too.
bool overlap(const Address& a, const Address& b) {
  if (a.port == 0 || a.port != b.port) return false;
  const auto host = [](const Address& address) {
    const std::string name = normal_host(address.host);
    return name == "localhost" ? std::string{"127.0.0.1"} : name;
  };
  const auto takes = [&](const Address& wide, const Address& other) {
    const auto wide_ip = parse_ip(wide.host);
    if (wide_ip == IpBytes{}) return true;
    const bool other_is_v6 = other.host.find(':') != std::string::npos;
    return wide.host == "0.0.0.0" && !other_is_v6;
  };
  if (takes(a, b) || takes(b, a)) return true;
  const auto a_ip = parse_ip(host(a));
  return a_ip ? a_ip == parse_ip(host(b)) : host(a) == host(b);
}

void check_ports(const Config& config, ParseContext& context) {
  std::vector<BoundAddress> all;
  for (std::size_t i = 0; i < config.listeners.size(); ++i) {
    const auto& listener = config.listeners[i];
    all.push_back({indexed("listeners", i) + ".address",
                   fmt::format("listener '{}'", listener.name), listener.address});
  }
  all.push_back({"admin.address", "the admin listener", config.admin.address});
  std::erase_if(all,
                [&](const BoundAddress& bound) { return context.report.has_problem(bound.path); });

  // The problem is reported at the later one; defaults, which are not in the file, come first.
  const auto place = [&](const BoundAddress& bound) {
    const auto found = context.marks.find(bound.path);
    return std::pair{found == context.marks.end() ? 0 : found->second.line, bound.path};
  };
  std::ranges::sort(
      all, [&](const BoundAddress& a, const BoundAddress& b) { return place(a) < place(b); });
  std::unordered_map<std::uint16_t, std::vector<const BoundAddress*>> earlier;  // by port
  for (const BoundAddress& bound : all) {
    std::vector<const BoundAddress*>& same_port = earlier[bound.address.port];
    const auto taken = std::ranges::find_if(same_port, [&](const BoundAddress* other) {
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

std::string path_of_target(const ParseContext& context, std::size_t route,
                           const std::string& pool) {
  const std::string path = indexed("routes", route);
  return context.marks.count(path + ".pool") > 0 ? path + ".pool" : path + ".split." + pool;
}

// "the pools are a, b, c and 7 more"
std::string list_of(const std::vector<std::string>& pools) {
  constexpr std::size_t max_listed = 20;
  const std::span listed(pools.data(), std::min(pools.size(), max_listed));
  const std::string text = fmt::format("the pools are {}", fmt::join(listed, ", "));
  return pools.size() <= max_listed
             ? text
             : fmt::format("{} and {} more", text, pools.size() - max_listed);
}

// The nearest of thousands of names takes a while, and is worth it only where it is shown.
std::optional<std::string> meant_pool(const std::string& name,
                                      const std::vector<std::string>& pools,
                                      const ParseContext& context) {
  if (context.report.size() >= Report::max_listed) return std::nullopt;
  return nearest_word(name, pools);
}

// Reports targets that are not pools. Returns the pools that are used, or probably meant.
std::unordered_set<std::string> check_targets(const Config& config, ParseContext& context) {
  std::vector<std::string> pools;
  std::unordered_set<std::string> known;
  for (const auto& pool : config.pools) {
    if (!pool.name.empty() && known.insert(pool.name).second) pools.push_back(pool.name);
  }
  std::unordered_set<std::string> used;
  for (std::size_t i = 0; i < config.routes.size(); ++i) {
    for (const auto& target : config.routes[i].targets) {
      if (target.pool.empty()) continue;  // the implied route to a pool without a name
      used.insert(target.pool);
      if (known.contains(target.pool)) continue;
      const auto meant = meant_pool(target.pool, pools, context);
      if (meant) used.insert(*meant);
      const bool is_selector = target.pool.find('=') != std::string::npos;
      context.add(path_of_target(context, i, target.pool),
                  fmt::format("there is no pool '{}'", target.pool),
                  meant         ? fmt::format("did you mean '{}'?", *meant)
                  : is_selector ? "to split by labels, name the pool: 'pool: NAME' beside 'split'"
                                : list_of(pools));
    }
  }
  return used;
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
    const std::string& fallback = config.pools[pool].fallback;
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

// Fallbacks are pools, and following them ends. Adds them to the pools that are used.
void check_fallbacks(const Config& config, std::unordered_set<std::string>& used,
                     ParseContext& context) {
  std::unordered_map<std::string, std::size_t> pools;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    if (pools.emplace(config.pools[i].name, i).second) names.push_back(config.pools[i].name);
  }
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    const PoolConfig& pool = config.pools[i];
    const std::string path = indexed("pools", i) + ".fallback";
    if (pool.fallback.empty() || context.report.has_problem(path)) continue;
    used.insert(pool.fallback);
    if (pools.contains(pool.fallback)) continue;
    const auto meant = meant_pool(pool.fallback, names, context);
    if (meant) used.insert(*meant);
    context.add(path, fmt::format("there is no pool '{}'", pool.fallback),
                meant ? fmt::format("did you mean '{}'?", *meant) : list_of(names));
  }
  check_fallback_cycles(config, pools, context);
}

void check_reachability(const Config& config, ParseContext& context) {
  RouteIndex index;
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
  for (std::size_t i = 0; i < config.routes.size(); ++i) {
    const std::string& path = config.routes[i].match.path;
    const std::string key = indexed("routes", i) + ".match.path";
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

void check_routes(const Config& config, ParseContext& context) {
  if (config.routes.empty()) {
    std::unordered_set<std::string> none;
    check_fallbacks(config, none, context);
    if (config.pools.size() > 1 && !context.report.has_problem("routes")) {
      context.report.add(
          context.mark_of("pools"), "routes",
          fmt::format("missing, and there are {} pools: which one answers a request?",
                      config.pools.size()),
          "add routes: [{match: {path: /v1/**}, pool: NAME}, ...]");
    }
    return;
  }
  auto used = check_targets(config, context);
  check_fallbacks(config, used, context);
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    const std::string& name = config.pools[i].name;
    const std::string path = indexed("pools", i) + ".name";
    if (name.empty() || used.count(name) > 0) continue;
    context.warn(path, fmt::format("no route leads to the pool '{}'", name),
                 "add a route to it, or remove it");
  }
  check_splits(config, context);
  check_reachability(config, context);
  warn_of_exact_paths(config, context);
}

// ---- health checks and polls

void check_health(const Config& config, ParseContext& context) {
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    const PoolConfig& pool = config.pools[i];
    const HealthCheckKind check = pool.health.check;
    const std::string path = indexed("pools", i) + ".health.model";
    if (pool.health.model == ModelCheck::off || context.report.has_problem(path)) continue;
    const bool generates = pool.health.model == ModelCheck::generate;
    const EngineTraits& engine = engine_traits(pool.engine);
    const bool over_grpc = check == HealthCheckKind::grpc ||
                           (check == HealthCheckKind::automatic && engine.checked_over_grpc &&
                            pool.protocol == BackendProtocol::http2);
    if (pool.models.empty()) {
      context.add(path, "the pool has no models to check for", "list them in its `models`");
    } else if (check == HealthCheckKind::tcp || check == HealthCheckKind::off) {
      context.add(path, "this `check` does not look at models",
                  "use `check: auto`, or remove `model`");
    } else if (generates && !engine.generates_tokens) {
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
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    const PoolConfig& pool = config.pools[i];
    const std::string_view consumed = engine_traits(pool.engine).consumed_metrics_path;
    if (consumed.empty() || pool.metrics.path != consumed) continue;
    context.add(indexed("pools", i) + ".metrics.path",
                fmt::format("reading {} of {} takes its data away from other readers", consumed,
                            pool.engine),
                "leave `path` out: the engine's Prometheus page is used then");
  }
}

}  // namespace

std::string indexed(std::string_view list, std::size_t index) {
  return fmt::format("{}[{}]", list, index);
}

std::string path_of_backend(const ParseContext& context, std::size_t pool, std::size_t backend) {
  const std::string path = indexed(indexed("pools", pool) + ".backends", backend);
  return context.marks.count(path + ".address") > 0 ? path + ".address" : path;
}

void validate_config(const Config& config, ParseContext& context) {
  check_names(config, context);
  check_tenants(config, context);
  check_ports(config, context);
  check_routes(config, context);
  check_health(config, context);
  check_metrics(config, context);
  check_models(config, context);
  check_effects(config, context);
  check_environment(config, context);
}

}  // namespace evenkeel::config_file
