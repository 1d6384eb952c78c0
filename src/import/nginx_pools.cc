#include "import/nginx_pools.h"

#include <algorithm>
#include <utility>

#include "evenkeel/base/ascii.h"

namespace evenkeel::import {
namespace {

constexpr std::uint32_t max_weight = 1000;

/// Where a proxy_pass leads.
struct Target {
  bool secure = false;
  bool grpc = false;
  std::string_view authority;
  std::string_view path;  // empty: the path of the request stays
};

std::optional<Target> target_of(std::string_view url) {
  Target target;
  const std::size_t end = url.find("://");
  const std::string_view scheme = url.substr(0, end == url.npos ? 0 : end);
  target.secure = scheme == "https" || scheme == "grpcs";
  target.grpc = scheme.starts_with("grpc");
  const bool known = target.secure || target.grpc || scheme == "http";
  if (!known || url.find('$') != url.npos) return std::nullopt;
  url.remove_prefix(end + 3);
  target.authority = url.substr(0, url.find('/'));
  target.path = url.substr(target.authority.size());
  return target;
}

void read_timeouts(Draft& draft, const NginxScope& location, PoolConfig& pool) {
  for (const char* name : {"proxy_read_timeout", "grpc_read_timeout"}) {
    if (const auto time = time_above_zero(draft, location, name))
      pool.timeouts.first_byte = pool.timeouts.idle = *time;
  }
  for (const char* name : {"proxy_connect_timeout", "grpc_connect_timeout"}) {
    if (const auto time = time_above_zero(draft, location, name)) pool.timeouts.connect = *time;
  }
}

/// The first argument of the nearest directive; empty if there is none.
std::string argument_of(const NginxScope& scope, std::string_view name) {
  const NginxDirective* found = scope.find(name);
  return found ? std::string(found->argument()) : std::string();
}

void read_tls(const NginxScope& location, PoolConfig& pool) {
  PoolTlsConfig tls;
  tls.ca = argument_of(location, "proxy_ssl_trusted_certificate");
  tls.server_name = argument_of(location, "proxy_ssl_name");
  if (tls.server_name.find('$') != std::string::npos) tls.server_name.clear();
  tls.cert = argument_of(location, "proxy_ssl_certificate");
  tls.key = argument_of(location, "proxy_ssl_certificate_key");
  tls.verify = argument_of(location, "proxy_ssl_verify") != "off";
  if (tls.cert.empty() || tls.key.empty()) tls.cert = tls.key = "";
  if (tls != PoolTlsConfig{}) pool.tls = std::move(tls);
}

/// A Host that is a text, not a variable.
void read_host(const NginxScope& location, PoolConfig& pool) {
  for (const NginxScope* scope = &location; scope != nullptr; scope = scope->outer) {
    for (NginxDirective* each : scope->settings) {
      const bool names_host = each->name() == "proxy_set_header" && each->words.size() == 3 &&
                              lower_case(each->words[1]) == "host";
      std::string why;
      if (!names_host || !is_host_field(each->words[2], why)) continue;
      each->used = true;
      if (pool.host.empty()) pool.host = each->words[2];
    }
  }
}

}  // namespace

NginxScope::NginxScope(NginxDirective& of, const NginxScope* around) : block(of), outer(around) {
  for (NginxDirective& each : block.children) {
    if (each.name() != "location" && each.name() != "server") settings.push_back(&each);
  }
}

NginxDirective* NginxScope::own(std::string_view name) const {
  const auto found = std::ranges::find(settings, name, &NginxDirective::name);
  return found == settings.end() ? nullptr : *found;
}

NginxDirective* NginxScope::find(std::string_view name) const {
  for (const NginxScope* scope = this; scope != nullptr; scope = scope->outer) {
    NginxDirective* found = scope->own(name);
    if (found == nullptr) continue;
    found->used = true;
    return found;
  }
  return nullptr;
}

std::optional<milliseconds> time_above_zero(Draft& draft, const NginxScope& scope,
                                            std::string_view name) {
  constexpr std::chrono::seconds plain{1};
  const NginxDirective* found = scope.find(name);
  const auto time = found ? parse_time(found->argument(), plain) : std::nullopt;
  if (!time || time->count() > 0) return time;
  draft.leave_out(found->line, found->words, "0 cannot be said: the default stays");
  return std::nullopt;
}

NginxPools::NginxPools(Draft& draft, NginxDirective& http) : draft_(draft) {
  for (NginxDirective& each : http.children) {
    if (each.name() == "upstream") upstreams_.try_emplace(std::string(each.argument()), &each);
  }
}

std::optional<std::string> NginxPools::pool_of(NginxDirective& pass, const NginxScope& location,
                                               std::string_view prefix) {
  const auto target = target_of(pass.argument());
  pass.used = true;
  if (!target) {
    draft_.leave_out(pass.line, pass.words,
                     "only http, https and grpc addresses without variables");
    return std::nullopt;
  }
  if (!target->path.empty() && target->path != prefix) {
    draft_.leave_out(pass.line, pass.words,
                     "paths are not rewritten: serve them as the backends do");
    return std::nullopt;
  }
  const std::string key(pass.argument().substr(0, pass.argument().size() - target->path.size()));
  PoolConfig settings;
  Draft::set_engine(settings, "auto");
  if (target->grpc) settings.protocol = BackendProtocol::http2;
  read_timeouts(draft_, location, settings);
  if (target->secure) read_tls(location, settings);
  read_host(location, settings);
  std::vector<Known>& known = pools_[key];
  const auto same = std::ranges::find(known, settings, &Known::settings);
  if (same != known.end()) {
    if (same->name.empty()) return std::nullopt;
    return same->name;
  }
  if (draft_.config.pools.size() >= max_pools) return std::nullopt;
  known.push_back({settings, {}});
  PoolConfig& pool = draft_.add_pool(target->authority.substr(0, target->authority.find(':')));
  settings.name = pool.name;
  pool = std::move(settings);
  if (!fill(pool, target->authority, target->secure, pass.line)) {
    draft_.note(pass.line, "left out: pool " + pool.name + ", which has no usable server");
    draft_.config.pools.pop_back();
    return std::nullopt;
  }
  known.back().name = pool.name;
  if (known.size() > 1) {
    draft_.note(pass.line, "pool " + pool.name + " has the servers of " + known.front().name +
                               " with other timeouts, TLS or host; limits count for each pool");
  }
  if (target->secure && location.find("proxy_ssl_verify") == nullptr) {
    draft_.note(pass.line, "pool " + pool.name +
                               ": certificates of its servers are verified, which nginx does only "
                               "with proxy_ssl_verify; `tls: {verify: false}` leaves it");
  }
  return pool.name;
}

bool NginxPools::fill(PoolConfig& pool, std::string_view authority, bool secure, int line) {
  const auto upstream = upstreams_.find(authority);
  if (upstream == upstreams_.end()) {
    draft_.add_backend(pool, authority, secure, line);
  } else {
    upstream->second->used = true;
    read_upstream(*upstream->second, pool, secure);
  }
  return !pool.backends.empty();
}

void NginxPools::read_upstream(NginxDirective& upstream, PoolConfig& pool, bool secure) {
  pool.picker.name.clear();
  for (NginxDirective& each : upstream.children) {
    if (each.name() == "server") {
      read_server(each, pool, secure);
    } else {
      read_method(each, pool);
    }
  }
  if (!pool.picker.name.empty()) return;
  const bool weighted = std::ranges::any_of(
      pool.backends, [](const BackendConfig& each) { return each.weight != 1; });
  pool.picker.name = weighted ? "weighted" : "round-robin";
  draft_.note(upstream.line, "pool " + pool.name +
                                 ": requests go round as in nginx; `picker: expected-time` or "
                                 "`least-connections` places them by load");
}

void NginxPools::read_server(NginxDirective& server, PoolConfig& pool, bool secure) {
  server.used = true;
  const auto arguments = server.arguments();
  if (std::ranges::find(arguments, "down") != arguments.end()) {
    draft_.leave_out(server.line, server.words);
    return;
  }
  BackendConfig* backend = draft_.add_backend(pool, server.argument(), secure, server.line);
  if (backend == nullptr) return;
  std::vector<std::string> unread{server.words.front(), std::string(server.argument())};
  for (const std::string& word : arguments.subspan(1)) {
    if (const auto weight = value_of(word, "weight=")) {
      backend->weight = std::clamp(parse_count(*weight).value_or(1), 1U, max_weight);
    } else if (const auto most = value_of(word, "max_conns=")) {
      pool.limits.max_in_flight = std::min(parse_count(*most).value_or(0), 1'000'000U);
    } else if (const auto time = value_of(word, "slow_start=")) {
      pool.slow_start =
          std::min(parse_time(*time, std::chrono::seconds{1}).value_or(milliseconds{}),
                   milliseconds{3'600'000});
    } else if (word == "backup") {
      backend->standby = true;
    } else if (word != "resolve") {
      unread.push_back(word);
    }
  }
  if (unread.size() > 2) draft_.leave_out(server.line, unread, "failing servers: `outlier`");
}

void NginxPools::read_method(NginxDirective& method, PoolConfig& pool) {
  const std::string& name = method.name();
  const std::string_view key = method.argument();
  method.used = true;
  if (name == "least_conn" || name == "random") {
    pool.picker.name = "least-connections";
  } else if (name == "least_time") {
    pool.picker.name = "least-latency";
  } else if (name == "hash" && key.starts_with("$http_") && field_name(key.substr(6))) {
    pool.picker.name = "consistent-hash";
    pool.picker.header = *field_name(key.substr(6));
    std::ranges::replace(pool.picker.header, '_', '-');
  } else if (name == "hash" && key.starts_with("$cookie_") && field_name(key.substr(8))) {
    pool.picker.name = "least-connections";
    pool.affinity = AffinityConfig{.by = {"cookie:" + std::string(key.substr(8))}};
  } else if (name == "ip_hash" || (name == "hash" && key == "$remote_addr") || name == "sticky") {
    pool.picker.name = "least-connections";
    pool.affinity = AffinityConfig{.by = {"cookie"}, .mode = AffinityMode::soft};
    draft_.note(method.line, "pool " + pool.name + ": " + name +
                                 " became sessions by the cookie evenkeel-session; for clients "
                                 "without cookies see `affinity.by`");
  } else if (name != "keepalive" && name != "keepalive_timeout" && name != "keepalive_requests" &&
             name != "keepalive_time" && name != "zone") {
    method.used = false;
  }
}

}  // namespace evenkeel::import
