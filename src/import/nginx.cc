#include "import/nginx.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "import/nginx_pools.h"
#include "import/nginx_syntax.h"

namespace evenkeel::import {
namespace {

constexpr std::chrono::seconds plain_seconds{1};

/// Directives that say what evenkeel does by itself, or that concern nginx's process alone.
const std::set<std::string, std::less<>>& needless() {
  static const std::set<std::string, std::less<>> names = {"user",
                                                           "pid",
                                                           "events",
                                                           "sendfile",
                                                           "tcp_nopush",
                                                           "tcp_nodelay",
                                                           "default_type",
                                                           "types_hash_max_size",
                                                           "server_tokens",
                                                           "gzip",
                                                           "error_log",
                                                           "worker_rlimit_nofile",
                                                           "http2",
                                                           "proxy_buffering",
                                                           "proxy_http_version",
                                                           "log_format",
                                                           "ssl_session_cache",
                                                           "ssl_session_timeout",
                                                           "ssl_session_tickets",
                                                           "proxy_request_buffering",
                                                           "keepalive_requests",
                                                           "chunked_transfer_encoding",
                                                           "ssl_prefer_server_ciphers",
                                                           "proxy_ssl_server_name",
                                                           "grpc_set_header"};
  return names;
}

/// True for a header field that evenkeel sets or keeps itself.
bool is_forwarding_field(const NginxDirective& each) {
  const std::string field = lower_case(each.argument());
  if (field == "host") return each.words.size() == 3 && each.words[2].starts_with('$');
  return field.starts_with("x-forwarded-") || field == "x-real-ip" || field == "connection" ||
         field == "upgrade" || field == "x-request-id";
}

void mark_needless(NginxDirective& block) {
  for (NginxDirective& each : block.children) {
    const bool mime = each.name() == "include" && each.argument().ends_with("mime.types");
    if (needless().contains(each.name()) || mime) each.used = true;
    if (each.name() == "proxy_set_header" && is_forwarding_field(each)) each.used = true;
    mark_needless(each);
  }
}

/// A location that passes requests on.
struct Location {
  bool exact = false;
  std::string_view path;
  NginxDirective* block = nullptr;
  NginxDirective* pass = nullptr;
};

/// What a location matches; nothing if that is a regular expression or a name.
std::optional<Location> location_of(NginxDirective& block) {
  Location location{.block = &block};
  const auto arguments = block.arguments();
  if (arguments.size() == 1) {
    location.path = arguments[0];
  } else if (arguments.size() == 2 && (arguments[0] == "=" || arguments[0] == "^~")) {
    location.path = arguments[1];
    location.exact = arguments[0] == "=";
  }
  if (!location.path.starts_with('/')) return std::nullopt;
  for (NginxDirective& each : block.children) {
    if (each.name() == "proxy_pass" || each.name() == "grpc_pass") location.pass = &each;
  }
  if (location.pass == nullptr) return std::nullopt;
  return location;
}

/// A server and the routes that it stands for.
struct Server {
  NginxDirective* block = nullptr;
  std::vector<std::pair<RouteMatch, std::string>> routes;  ///< without hosts
  std::vector<std::string> hosts;
  bool is_default = false;  ///< takes the hosts that no other one names
};

class NginxImport {
 public:
  explicit NginxImport(NginxDirective& root) : root_(root) {}

  Import run();

 private:
  void read_process();
  void read_server(NginxDirective& block, const NginxScope& http);
  std::vector<std::pair<RouteMatch, std::string>> routes_of(const NginxScope& server);
  void read_names(NginxDirective& each, Server& server);
  bool read_listen(NginxDirective& listen, const NginxScope& server);
  void read_tls(ListenerConfig& listener, const NginxScope& server, int line);
  void read_limits(ListenerConfig& listener, const NginxScope& server);
  void add_routes();
  bool add_routes_of(const Server& server, const std::string& host);
  void report_unused(const NginxDirective& block);

  NginxDirective& root_;
  Draft draft_;
  std::optional<NginxPools> pools_;
  std::vector<Server> servers_;
  std::set<std::string> addresses_;  // that have a default server
};

Import NginxImport::run() {
  mark_needless(root_);
  const auto block = std::ranges::find(root_.children, "http", &NginxDirective::name);
  NginxDirective& http = block == root_.children.end() ? root_ : *block;
  http.used = true;
  pools_.emplace(draft_, http);
  const NginxScope scope{http};
  for (NginxDirective& each : http.children) {
    if (each.name() == "server") read_server(each, scope);
  }
  add_routes();
  read_process();
  report_unused(root_);
  return std::move(draft_).finished(
      "no server of the file has a location with proxy_pass or grpc_pass that can be kept");
}

void NginxImport::read_process() {
  const auto workers = std::ranges::find(root_.children, "worker_processes", &NginxDirective::name);
  if (workers == root_.children.end()) return;
  workers->used = true;
  draft_.config.workers = std::min(parse_count(workers->argument()).value_or(0), 1024U);
}

std::vector<std::pair<RouteMatch, std::string>> NginxImport::routes_of(const NginxScope& server) {
  std::vector<Location> locations;
  for (NginxDirective& each : server.block.children) {
    if (each.name() != "location") continue;
    if (const auto location = location_of(each)) locations.push_back(*location);
  }
  // As nginx chooses: an exact path, else the longest prefix.
  std::ranges::sort(locations, std::ranges::greater(), [](const Location& location) {
    return std::tuple(location.exact, location.path.size(), location.path);
  });
  std::vector<std::pair<RouteMatch, std::string>> routes;
  for (const Location& location : locations) {
    RouteMatch match;
    const auto path = path_pattern(location.path, !location.exact);
    if (!path) continue;
    if (*path != "/**") match.path = *path;
    location.block->used = true;
    const NginxScope scope{*location.block, &server};
    const auto pool = pools_->pool_of(*location.pass, scope, location.path);
    if (pool) routes.emplace_back(std::move(match), *pool);
  }
  return routes;
}

void NginxImport::read_names(NginxDirective& each, Server& server) {
  each.used = true;
  for (const std::string& name : each.arguments()) {
    if (name == "_" || name.empty()) continue;
    const auto host = host_pattern(name);
    if (!host) {
      draft_.leave_out(each.line, std::vector<std::string>{"server_name", name});
      continue;
    }
    if (name.starts_with('.')) server.hosts.push_back(host->substr(2));
    server.hosts.push_back(*host);
  }
}

void NginxImport::read_server(NginxDirective& block, const NginxScope& http) {
  const NginxScope scope{block, &http};
  Server server{.block = &block, .routes = routes_of(scope)};
  if (server.routes.empty()) return;
  block.used = true;
  bool listens = false;
  for (NginxDirective& each : block.children) {
    if (each.name() == "server_name") read_names(each, server);
    if (each.name() != "listen") continue;
    listens = true;
    if (read_listen(each, scope)) server.is_default = true;
  }
  NginxDirective standard{{"listen", "80"}, block.line, {}};
  if (!listens && read_listen(standard, scope)) server.is_default = true;
  if (const NginxDirective* log = scope.find("access_log")) {
    draft_.config.access_log.path = log->argument();
    if (log->argument() != "off")
      draft_.note(log->line, "the access log is JSON, one object a line");
  }
  servers_.push_back(std::move(server));
}

bool NginxImport::read_listen(NginxDirective& listen, const NginxScope& server) {
  listen.used = true;
  std::string address(listen.argument());
  const bool is_port = parse_count(address).has_value();
  if (is_port) address = ":" + address;
  if (!is_port && address.find(':') == std::string::npos) address += ":80";
  if (address.starts_with('[') && address.ends_with(']')) address += ":80";
  const auto arguments = listen.arguments();
  const auto has = [&](const char* word) {
    return std::ranges::find(arguments, word) != arguments.end();
  };
  if (has("quic")) {
    draft_.leave_out(listen.line, listen.words, "HTTP/3 is not served");
    return false;
  }
  ListenerConfig* listener = draft_.listener_at(address, listen.line);
  if (listener == nullptr) return false;
  read_limits(*listener, server);
  if (has("ssl")) read_tls(*listener, server, listen.line);
  if (has("proxy_protocol")) {
    draft_.leave_out(listen.line, listen.words, "name the networks in `proxy_protocol`");
  }
  const bool first = addresses_.insert(address).second;
  return first || has("default_server") || has("default");
}

void NginxImport::read_tls(ListenerConfig& listener, const NginxScope& server, int line) {
  const NginxDirective* cert = server.find("ssl_certificate");
  const NginxDirective* key = server.find("ssl_certificate_key");
  if (cert == nullptr || key == nullptr || cert->argument().empty() || key->argument().empty()) {
    draft_.note(line, "left out: TLS of " + listener.name + ", which has no ssl_certificate");
    return;
  }
  if (!listener.tls) listener.tls.emplace();
  CertificateConfig pair{std::string(cert->argument()), std::string(key->argument())};
  auto& all = listener.tls->certificates;
  if (std::ranges::find(all, pair) == all.end()) all.push_back(std::move(pair));
  if (const NginxDirective* ca = server.find("ssl_client_certificate")) {
    const NginxDirective* verify = server.find("ssl_verify_client");
    const std::string_view rule = verify ? verify->argument() : "off";
    if (rule == "on" || rule == "optional") {
      listener.tls->client_ca = ca->argument();
      listener.tls->client_auth = rule == "on" ? ClientAuth::require : ClientAuth::request;
    }
  }
  if (const NginxDirective* versions = server.find("ssl_protocols")) {
    const auto old = std::ranges::find(versions->words, "TLSv1.2");
    if (old == versions->words.end()) listener.tls->min_version = TlsVersion::tls1_3;
  }
}

void NginxImport::read_limits(ListenerConfig& listener, const NginxScope& server) {
  if (const NginxDirective* body = server.find("client_max_body_size")) {
    const auto size = parse_size(body->argument());
    if (size) listener.limits.body_bytes = *size == 0 ? std::uint64_t{1} << 40U : *size;
  }
  const std::pair<const char*, milliseconds*> times[] = {
      {"client_header_timeout", &listener.timeouts.header},
      {"client_body_timeout", &listener.timeouts.body},
      {"keepalive_timeout", &listener.timeouts.idle},
      {"send_timeout", &listener.timeouts.write}};
  for (const auto& [name, into] : times) {
    const NginxDirective* found = server.find(name);
    const auto time = found ? parse_time(found->argument(), plain_seconds) : std::nullopt;
    if (time) *into = *time;
  }
}

/// Names before patterns, patterns before what takes every host.
void NginxImport::add_routes() {
  enum class Group { names, patterns, others };
  const bool alone = servers_.size() == 1;
  for (const Group group : {Group::names, Group::patterns, Group::others}) {
    for (const Server& server : servers_) {
      std::vector<std::string> hosts = server.hosts;
      std::erase_if(hosts, [&](const std::string& host) {
        return alone || host.starts_with("*.") != (group == Group::patterns);
      });
      if (group == Group::others) {
        hosts.assign(alone || server.is_default || server.hosts.empty() ? 1 : 0, "");
      }
      for (const std::string& host : hosts) {
        if (!add_routes_of(server, host)) return;
      }
    }
  }
}

bool NginxImport::add_routes_of(const Server& server, const std::string& host) {
  return std::ranges::all_of(server.routes, [&](const std::pair<RouteMatch, std::string>& route) {
    RouteMatch match = route.first;
    match.host = host;
    return draft_.add_route(std::move(match), {{.pool = route.second}}, server.block->line);
  });
}

void NginxImport::report_unused(const NginxDirective& block) {
  for (const NginxDirective& each : block.children) {
    if (!each.used) {
      std::vector<std::string> words = each.words;
      if (!each.children.empty()) words.emplace_back("{ ... }");
      const bool include = each.name() == "include";
      draft_.leave_out(each.line, words, include ? "not followed: import that file too" : "");
    } else if (!needless().contains(each.name())) {
      report_unused(each);
    }
  }
}

}  // namespace

Import import_nginx(std::string_view text) {
  auto parsed = parse_nginx(text);
  if (const auto* error = std::get_if<SyntaxError>(&parsed)) {
    return {.config = {}, .notes = {}, .error = {error->line, error->message}};
  }
  return NginxImport(std::get<NginxDirective>(parsed)).run();
}

}  // namespace evenkeel::import
