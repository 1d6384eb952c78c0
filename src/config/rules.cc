#include "config/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <unordered_map>

#include "config/spelling.h"

namespace evenkeel::config_file {
namespace {

std::string at(std::string_view list, std::size_t index) {
  return fmt::format("{}[{}]", list, index);
}

std::string line_of(const Reading& reading, const std::string& path) {
  return fmt::format("line {}", reading.mark_of(path).line);
}

// Of its address, which is in a mapping or stands alone.
std::string path_of_backend(const Reading& reading, std::size_t pool, std::size_t backend) {
  const std::string path = at(at("pools", pool) + ".backends", backend);
  return reading.marks.count(path + ".address") > 0 ? path + ".address" : path;
}

// ---- names and addresses that are given twice

struct Named {
  std::string path;
  std::string name;
};

void check_unique(const std::vector<Named>& all, std::string_view what, Reading& reading) {
  std::unordered_map<std::string, const std::string*> first;
  for (const auto& [path, name] : all) {
    if (reading.report.touched(path)) continue;
    const auto [it, is_new] = first.emplace(name, &path);
    if (is_new) continue;
    reading.add(path, fmt::format("duplicate {} '{}', the first is in {}", what, name,
                                  line_of(reading, *it->second)));
  }
}

void check_names(const Config& config, Reading& reading) {
  std::vector<Named> listeners;
  for (std::size_t i = 0; i < config.listeners.size(); ++i) {
    const std::string path = at("listeners", i) + ".name";
    listeners.push_back({path, config.listeners[i].name});
    if (config.listeners[i].name == "admin") {
      reading.add(path, "'admin' is the name of the admin listener");
    }
  }
  check_unique(listeners, "listener name", reading);

  std::vector<Named> pools;
  pools.reserve(config.pools.size());
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    pools.push_back({at("pools", i) + ".name", config.pools[i].name});
  }
  check_unique(pools, "pool name", reading);

  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    std::vector<Named> backends;
    backends.reserve(config.pools[i].backends.size());
    for (std::size_t j = 0; j < config.pools[i].backends.size(); ++j) {
      backends.push_back(
          {path_of_backend(reading, i, j), to_string(config.pools[i].backends[j].address)});
    }
    check_unique(backends, "backend", reading);
  }
}

// ---- ports

struct Bound {
  std::string path;
  std::string who;
  Address address;
};

// Whether a connection could belong to either. :: takes IPv4 too.
bool overlap(const Address& a, const Address& b) {
  if (a.port == 0 || a.port != b.port) return false;
  const auto host = [](const Address& address) {
    return address.host == "localhost" ? std::string{"127.0.0.1"} : address.host;
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

void check_ports(const Config& config, Reading& reading) {
  std::vector<Bound> all;
  for (std::size_t i = 0; i < config.listeners.size(); ++i) {
    const auto& listener = config.listeners[i];
    all.push_back({at("listeners", i) + ".address", fmt::format("listener '{}'", listener.name),
                   listener.address});
  }
  all.push_back({"admin.address", "the admin listener", config.admin.address});
  std::erase_if(all, [&](const Bound& bound) { return reading.report.touched(bound.path); });

  // The complaint goes to the later one; what is not in the file comes before all that is.
  const auto place = [&](const Bound& bound) {
    const auto found = reading.marks.find(bound.path);
    return std::pair{found == reading.marks.end() ? 0 : found->second.line, bound.path};
  };
  std::ranges::sort(all, [&](const Bound& a, const Bound& b) { return place(a) < place(b); });
  for (std::size_t later = 1; later < all.size(); ++later) {
    const auto earlier = std::find_if(
        all.begin(), all.begin() + static_cast<std::ptrdiff_t>(later),
        [&](const Bound& bound) { return overlap(bound.address, all[later].address); });
    if (earlier == all.begin() + static_cast<std::ptrdiff_t>(later)) continue;
    reading.add(all[later].path,
                fmt::format("port {} is taken by {} on {}", all[later].address.port, earlier->who,
                            to_string(earlier->address)),
                "give one of them another port");
  }
}

// ---- names of hosts

void check_hosts(const Config& config, Reading& reading) {
  if (!reading.environment.resolve_error) return;
  std::vector<Named> used;
  const auto use = [&](std::string path, const Address& address) {
    if (!parse_ip(address.host) && !reading.report.touched(path)) {
      used.push_back({std::move(path), address.host});
    }
  };
  for (std::size_t i = 0; i < config.listeners.size(); ++i) {
    use(at("listeners", i) + ".address", config.listeners[i].address);
  }
  use("admin.address", config.admin.address);
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    // Of those that the file's own name servers know, the system may know nothing.
    if (!config.dns.servers.empty()) break;
    for (std::size_t j = 0; j < config.pools[i].backends.size(); ++j) {
      use(path_of_backend(reading, i, j), config.pools[i].backends[j].address);
    }
  }
  std::map<std::string, std::optional<std::string>> errors;
  for (const auto& [path, host] : used) {
    if (!host.empty()) errors.emplace(host, std::nullopt);
  }

  // A name server may take seconds to say no: ask for several names at a time.
  constexpr std::size_t most_threads = 16;
  std::vector<std::map<std::string, std::optional<std::string>>::iterator> questions;
  for (auto it = errors.begin(); it != errors.end(); ++it) questions.push_back(it);
  std::atomic<std::size_t> next{0};
  const auto ask = [&] {
    for (std::size_t i = next++; i < questions.size(); i = next++) {
      questions[i]->second = reading.environment.resolve_error(questions[i]->first);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min(questions.size(), most_threads); ++i) {
      threads.emplace_back(ask);
    }
    ask();
  }
  for (const auto& [path, host] : used) {
    const auto found = errors.find(host);
    if (found == errors.end() || !found->second) continue;
    reading.add(path, fmt::format("the host name '{}' has no address: {}", host, *found->second));
  }
}

// ---- certificates

void check_certificates(const Config& config, Reading& reading) {
  const auto report = [&](const std::string& place, const std::vector<TlsProblem>& problems) {
    for (const TlsProblem& problem : problems) {
      const std::string path = place + "." + problem.key;
      if (problem.warning) {
        reading.report.warn(reading.mark_of(path), path, problem.message, problem.help);
      } else {
        reading.add(path, problem.message, problem.help);
      }
    }
  };
  const Environment& environment = reading.environment;
  for (std::size_t i = 0; i < config.listeners.size(); ++i) {
    const auto& tls = config.listeners[i].tls;
    const std::string place = at("listeners", i) + ".tls";
    if (!environment.listener_tls_problems || !tls || reading.report.touched(place)) continue;
    report(place, environment.listener_tls_problems(*tls));
  }
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    const auto& tls = config.pools[i].tls;
    const std::string place = at("pools", i) + ".tls";
    if (!environment.pool_tls_problems || !tls || reading.report.touched(place)) continue;
    report(place, environment.pool_tls_problems(*tls));
  }
}

// ---- routes and pools

std::string path_of_target(const Reading& reading, std::size_t route, const std::string& pool) {
  const std::string path = at("routes", route);
  return reading.marks.count(path + ".pool") > 0 ? path + ".pool" : path + ".split." + pool;
}

// Reports targets that are no pools. The names of pools that are used, or were meant to be.
std::set<std::string> check_targets(const Config& config, Reading& reading) {
  std::vector<std::string> pools;
  for (const auto& pool : config.pools) {
    const bool is_new = std::ranges::find(pools, pool.name) == pools.end();
    if (is_new && !pool.name.empty()) pools.push_back(pool.name);
  }
  std::set<std::string> used;
  for (std::size_t i = 0; i < config.routes.size(); ++i) {
    for (const auto& target : config.routes[i].targets) {
      if (target.pool.empty()) continue;  // a pool without name, on the way that is implied
      used.insert(target.pool);
      if (std::ranges::find(pools, target.pool) != pools.end()) continue;
      const auto meant = nearest_word(target.pool, pools);
      if (meant) used.insert(*meant);
      reading.add(path_of_target(reading, i, target.pool),
                  fmt::format("there is no pool '{}'", target.pool),
                  meant ? fmt::format("did you mean '{}'?", *meant)
                        : fmt::format("the pools are {}", fmt::join(pools, ", ")));
    }
  }
  return used;
}

void check_shares(const Config& config, Reading& reading) {
  for (std::size_t i = 0; i < config.routes.size(); ++i) {
    const auto& targets = config.routes[i].targets;
    const std::string path = at("routes", i) + ".split";
    const bool all_zero =
        !targets.empty() &&
        std::ranges::all_of(targets, [](const RouteTarget& target) { return target.weight == 0; });
    if (all_zero && !reading.report.touched(path)) {
      reading.add(path, "all shares are 0, no pool gets a request");
    }
  }
}

void check_reach(const Config& config, Reading& reading) {
  const auto match_is_wrong = [&](std::size_t route) {
    return reading.report.touched(at("routes", route) + ".match");
  };
  for (std::size_t later = 1; later < config.routes.size(); ++later) {
    if (match_is_wrong(later)) continue;
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      if (match_is_wrong(earlier)) continue;
      if (!covers(config.routes[earlier].match, config.routes[later].match)) continue;
      const std::string path = at("routes", earlier);
      reading.add(at("routes", later),
                  fmt::format("never reached, {} in {} takes all that this would", path,
                              line_of(reading, path)),
                  "the first match wins; put the narrower route first");
      break;
    }
  }
}

void check_routes(const Config& config, Reading& reading) {
  if (config.routes.empty()) {
    if (config.pools.size() > 1 && !reading.report.touched("routes")) {
      reading.report.add(
          reading.mark_of("pools"), "routes",
          fmt::format("missing, and there are {} pools: which one answers a request?",
                      config.pools.size()),
          "add routes: [{match: {path: /v1/**}, pool: NAME}, ...]");
    }
    return;
  }
  const auto used = check_targets(config, reading);
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    const std::string& name = config.pools[i].name;
    const std::string path = at("pools", i) + ".name";
    if (name.empty() || reading.report.touched(path) || used.count(name) > 0) continue;
    reading.add(path, fmt::format("no route leads to the pool '{}'", name),
                "add a route to it, or remove it");
  }
  check_shares(config, reading);
  check_reach(config, reading);
}

std::vector<std::string_view> segments_of(std::string_view path) {
  std::vector<std::string_view> segments;
  while (path.starts_with('/')) {
    path.remove_prefix(1);
    const std::size_t end = std::min(path.find('/'), path.size());
    segments.push_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return segments;
}

bool path_covers(const std::string& first, const std::string& second) {
  if (first.empty() || first == "/**") return true;
  if (second.empty()) return false;
  const auto a = segments_of(first);
  const auto b = segments_of(second);
  const auto is_rest = [](const auto& segments, std::size_t i) {
    return i < segments.size() && segments[i] == "**";
  };
  for (std::size_t i = 0;; ++i) {
    if (is_rest(a, i)) return true;
    if (is_rest(b, i)) return false;
    if (i == a.size() || i == b.size()) return a.size() == b.size();
    if (a[i] != "*" && a[i] != b[i]) return false;
  }
}

bool host_covers(const std::string& first, const std::string& second) {
  if (first.empty() || first == second) return true;
  return first.starts_with("*.") && second.size() > first.size() - 1 &&
         second.ends_with(first.substr(1));
}

// Each of the second's calls is one of the first's.
bool calls_cover(const std::vector<std::string>& first, const std::vector<std::string>& second) {
  if (first.empty()) return true;
  const auto is_covered = [&](std::string_view call) {
    return std::ranges::any_of(first, [&](const std::string& each) {
      return call == each || (call.starts_with(each) && call.substr(each.size()).starts_with('/'));
    });
  };
  return !second.empty() && std::ranges::all_of(second, is_covered);
}

// ---- what backends are asked

void check_health(const Config& config, Reading& reading) {
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    const PoolConfig& pool = config.pools[i];
    const HealthCheckKind check = pool.health.check;
    const std::string path = at("pools", i) + ".health.model";
    if (pool.health.model == ModelCheck::off || reading.report.touched(path)) continue;
    const bool generates = pool.health.model == ModelCheck::generate;
    const bool no_tokens = pool.engine == "torchserve" || pool.engine == "tfserving";
    const bool over_grpc = check == HealthCheckKind::grpc ||
                           (check == HealthCheckKind::automatic && pool.engine == "triton" &&
                            pool.protocol == BackendProtocol::http2);
    if (pool.models.empty()) {
      reading.add(path, "the pool names no models that could be asked for",
                  "list them in its `models`");
    } else if (check == HealthCheckKind::tcp || check == HealthCheckKind::off) {
      reading.add(path, "with this `check` nothing is asked, nor for models",
                  "take `check: auto`, or leave `model` out");
    } else if (generates && no_tokens) {
      reading.add(path,
                  fmt::format("what makes {} answer a token depends on the model", pool.engine),
                  "take `model: required`");
    } else if (generates && over_grpc) {
      reading.add(path, "a token is asked for over HTTP, and these checks are calls of gRPC",
                  "take `model: required`");
    }
  }
}

void check_metrics(const Config& config, Reading& reading) {
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    const PoolConfig& pool = config.pools[i];
    if (pool.engine != "trtllm" || pool.metrics.path != "/metrics") continue;
    reading.add(at("pools", i) + ".metrics.path",
                "trtllm-serve's /metrics is JSON, and reading it takes it from whoever needs it",
                "leave `path` out: its exposition is at /prometheus/metrics");
  }
}

}  // namespace

bool covers(const RouteMatch& first, const RouteMatch& second) {
  const bool headers_cover = std::ranges::all_of(first.header, [&](const auto& field) {
    const auto found = second.header.find(field.first);
    return found != second.header.end() && found->second == field.second;
  });
  const bool methods_cover =
      first.method.empty() ||
      (!second.method.empty() && std::ranges::all_of(second.method, [&](const std::string& method) {
        return std::ranges::find(first.method, method) != first.method.end();
      }));
  return headers_cover && methods_cover && host_covers(first.host, second.host) &&
         path_covers(first.path, second.path) && calls_cover(first.grpc, second.grpc);
}

void check_rules(const Config& config, Reading& reading) {
  check_names(config, reading);
  check_ports(config, reading);
  check_routes(config, reading);
  check_health(config, reading);
  check_metrics(config, reading);
  check_hosts(config, reading);
  check_certificates(config, reading);
}

}  // namespace evenkeel::config_file
