#include "import/nginx_pools.h"

#include <algorithm>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "import/paths.h"

namespace evenkeel::import {
namespace {

constexpr std::uint32_t max_weight = 1000;

/// Where a proxy_pass leads.
struct Url {
  bool secure = false;
  bool grpc = false;
  std::string_view authority;
  std::string_view path;  // empty: the path of the request stays
};

std::optional<Url> url_of(std::string_view url) {
  Url target;
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

/// What a condition of `proxy_next_upstream` is for `retry.on`.
std::optional<RetryOn> retry_on(std::string_view condition) {
  if (condition == "error") return RetryOn::reset;
  if (condition == "timeout") return RetryOn::timeout;
  if (condition == "http_500") return RetryOn::server_error;
  if (condition == "http_429") return RetryOn::overload;
  const bool is_gateways =
      condition == "http_502" || condition == "http_503" || condition == "http_504";
  return is_gateways ? std::optional(RetryOn::gateway_error) : std::nullopt;
}

void read_retries(Draft& draft, const NginxScope& location, PoolConfig& pool) {
  if (const NginxDirective* next = location.find("proxy_next_upstream")) {
    const auto conditions = next->arguments();
    const bool repeats_all = std::ranges::find(conditions, "non_idempotent") != conditions.end();
    if (next->argument() == "off") pool.retry.attempts = 1;
    for (const std::string& each : conditions) {
      const auto on = retry_on(each);
      if (!repeats_all || !on) continue;
      if (std::ranges::find(pool.retry.on, *on) == pool.retry.on.end())
        pool.retry.on.push_back(*on);
    }
    if (!repeats_all && next->argument() != "off")
      draft.note(next->line,
                 "proxy_next_upstream: as in nginx, requests that a server may have begun, such as "
                 "chats, are not sent again; `retry.on` names what they are sent again for");
  }
  if (const NginxDirective* tries = location.find("proxy_next_upstream_tries")) {
    const auto most = parse_count(tries->argument()).value_or(0);
    if (most > 0) pool.retry.attempts = std::min(most, 8U);
  }
  if (const NginxDirective* within = location.find("proxy_next_upstream_timeout")) {
    constexpr std::chrono::seconds plain{1};
    pool.retry.within = parse_time(within->argument(), plain).value_or(pool.retry.within);
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

std::string NginxScope::expanded(std::string_view text) const {
  std::string out(text);
  for (const NginxScope* scope = this; scope != nullptr; scope = scope->outer) {
    for (NginxDirective* each : scope->settings) {
      const bool is_text = each->name() == "set" && each->words.size() == 3 &&
                           each->argument().size() > 1 && each->argument().starts_with('$') &&
                           each->words[2].find('$') == std::string::npos;
      if (!is_text) continue;
      const std::string name(each->argument());
      for (const std::string& way : {"${" + name.substr(1) + '}', name}) {
        const std::size_t at = out.find(way);
        if (at == std::string::npos) continue;
        const std::size_t end = at + way.size();
        const bool is_longer =
            way == name && end < out.size() && (is_letter_or_digit(out[end]) || out[end] == '_');
        if (is_longer) continue;
        out.replace(at, way.size(), each->words[2]);
        each->used = true;
      }
    }
  }
  return out;
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

struct NginxPools::Fails {
  int line;
  std::uint32_t most = 1;
  milliseconds time{10'000};
  bool is_given = false;

  bool operator==(const Fails& other) const { return most == other.most && time == other.time; }
};

std::optional<NginxTarget> NginxPools::target_of(NginxDirective& pass, const NginxScope& location,
                                                 std::string_view path, bool is_exact) {
  pass.used = true;
  std::string address = location.expanded(pass.argument());
  const bool has_variable = address != pass.argument();
  constexpr std::string_view whole = "$request_uri";
  const bool is_whole = address.ends_with(whole);
  if (is_whole) address.resize(address.size() - whole.size());
  const auto url = url_of(address);
  if (!url || (is_whole && !url->path.empty())) {
    draft_.leave_out(pass.line, pass.words,
                     "only http, https and grpc addresses without variables of the request");
    return std::nullopt;
  }
  // With a variable, a path there replaces the whole path.
  const auto rewrite = has_variable && !url->path.empty()
                           ? std::nullopt
                           : nginx_pass_rewrite(path, is_exact, url->path);
  const bool has_own = location.own("rewrite") != nullptr;  // then that counts
  if (!rewrite && !has_own) {
    draft_.leave_out(pass.line, pass.words,
                     "`rewrite` of a route cannot say it: serve these paths as the backends do");
    return std::nullopt;
  }
  auto pool = pool_of(pass, address, location);
  if (!pool) return std::nullopt;
  return NginxTarget{.pool = *std::move(pool), .rewrite = rewrite.value_or(RewriteConfig{})};
}

std::optional<std::string> NginxPools::pool_of(const NginxDirective& pass, const std::string& url,
                                               const NginxScope& location) {
  const auto target = url_of(url);
  const std::string key(url.substr(0, url.size() - target->path.size()));
  PoolConfig settings;
  Draft::set_engine(settings, "auto");
  if (target->grpc) settings.protocol = BackendProtocol::http2;
  read_timeouts(draft_, location, settings);
  read_retries(draft_, location, settings);
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
  std::vector<Fails> fails;
  for (NginxDirective& each : upstream.children) {
    if (each.name() == "server") {
      read_server(each, pool, secure, fails);
    } else {
      read_method(each, pool);
    }
  }
  read_fails(fails, pool);
  if (!pool.picker.name.empty()) return;
  const bool weighted = std::ranges::any_of(
      pool.backends, [](const BackendConfig& each) { return each.weight != 1; });
  pool.picker.name = weighted ? "weighted" : "round-robin";
  draft_.note(upstream.line, "pool " + pool.name +
                                 ": requests go round as in nginx; `picker: expected-time` or "
                                 "`least-connections` places them by load");
}

void NginxPools::read_fails(const std::vector<Fails>& fails, PoolConfig& pool) {
  if (std::ranges::none_of(fails, &Fails::is_given)) return;
  const Fails& first = fails.front();
  const bool is_one = std::ranges::all_of(fails, [&](const Fails& each) { return each == first; });
  if (!is_one) {
    draft_.note(first.line, "left out: max_fails and fail_timeout of pool " + pool.name +
                                ", which differ by server: `outlier` is the pool's");
    return;
  }
  constexpr milliseconds least{100};
  pool.outlier.consecutive = std::min(first.most, 10'000U);
  pool.outlier.ejection = std::clamp(first.time, least, max_time);
  draft_.note(first.line,
              "max_fails and fail_timeout became `outlier`, which counts failures in a row, and "
              "ends early where a health check succeeds");
}

void NginxPools::read_server(NginxDirective& server, PoolConfig& pool, bool secure,
                             std::vector<Fails>& fails) {
  server.used = true;
  const auto arguments = server.arguments();
  if (std::ranges::find(arguments, "down") != arguments.end()) {
    draft_.leave_out(server.line, server.words);
    return;
  }
  BackendConfig* backend = draft_.add_backend(pool, server.argument(), secure, server.line);
  if (backend == nullptr) return;
  std::vector<std::string> unread{server.words.front(), std::string(server.argument())};
  Fails of_server{.line = server.line};
  for (const std::string& word : arguments.subspan(1)) {
    if (const auto weight = value_of(word, "weight=")) {
      backend->weight = std::clamp(parse_count(*weight).value_or(1), 1U, max_weight);
    } else if (const auto most = value_of(word, "max_conns=")) {
      pool.limits.max_in_flight = std::min(parse_count(*most).value_or(0), 1'000'000U);
    } else if (const auto time = value_of(word, "slow_start=")) {
      pool.slow_start =
          std::min(parse_time(*time, std::chrono::seconds{1}).value_or(milliseconds{}),
                   milliseconds{3'600'000});
    } else if (const auto fail = value_of(word, "max_fails=")) {
      of_server.most = parse_count(*fail).value_or(1);
      of_server.is_given = true;
    } else if (const auto timeout = value_of(word, "fail_timeout=")) {
      of_server.time = parse_time(*timeout, std::chrono::seconds{1}).value_or(of_server.time);
      of_server.is_given = true;
    } else if (word == "backup") {
      backend->standby = true;
    } else if (word != "resolve") {
      unread.push_back(word);
    }
  }
  fails.push_back(of_server);
  if (unread.size() > 2) draft_.leave_out(server.line, unread);
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
