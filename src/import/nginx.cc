#include "import/nginx.h"

#include <algorithm>
#include <functional>
#include <list>
#include <set>
#include <tuple>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "import/nginx_keys.h"
#include "import/nginx_limits.h"
#include "import/nginx_locations.h"
#include "import/nginx_pools.h"
#include "import/nginx_syntax.h"

namespace evenkeel::import {
namespace {

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
                                                           "proxy_buffers",
                                                           "proxy_buffer_size",
                                                           "proxy_busy_buffers_size",
                                                           "proxy_socket_keepalive",
                                                           "client_body_buffer_size",
                                                           "multi_accept",
                                                           "worker_connections",
                                                           "map_hash_bucket_size",
                                                           "limit_req_log_level",
                                                           "limit_conn_log_level"};
  return names;
}

/// What to do about a directive that is left out.
struct Cure {
  std::string_view name;
  std::string_view text;
  bool opens = false;  ///< it kept something from clients or backends
};

constexpr std::string_view no_route_needs_it = "no route that leads to a pool has it";
constexpr std::string_view in_one_log =
    "all requests are in one log; `access_log.fields` and "
    "`sample` say what it has";
constexpr std::string_view no_such_timeout =
    "requests have none on their way to a backend; `timeouts.first_byte` begins at their end";
constexpr std::string_view as_clients_send =
    "a field of that name reaches backends as clients send it";
constexpr std::string_view of_answers =
    "`response_headers` of a route, with `$client` and the like";
constexpr Cure cures[] = {
    {"limit_req", no_route_needs_it, true},
    {"limit_conn", no_route_needs_it, true},
    {"modsecurity", "", true},
    {"ssl_crl", "name it in `client_crl` of the listener", true},
    {"proxy_hide_header", "`response_headers: {remove: [NAME]}` of a route", true},
    {"proxy_pass_request_headers", "", true},
    {"proxy_pass_request_body", "", true},
    {"proxy_method", "", true},
    {"more_clear_input_headers", "`request_headers: {remove: [NAME]}` of a route", true},
    {"proxy_set_header", as_clients_send, true},
    {"grpc_set_header", as_clients_send, true},
    {"proxy_send_timeout", no_such_timeout},
    {"grpc_send_timeout", no_such_timeout},
    {"auth_basic_user_file", "keys of clients: `auth` and `evenkeel key create`"},
    {"gzip_types", "as gzip"},
    {"access_log", in_one_log},
    {"add_header", of_answers},
    {"ssl_ciphers", "the ciphers of TLS 1.2 and 1.3 are fixed"},
    {"gzip", "`compression` of routes"},
    {"proxy_cache", "`cache` of the pool keeps answers of models"},
    {"client_max_body_size", "`limits.body` of the listener holds for all paths"},
    {"error_page", "`error_pages` of routes, for people; clients' libraries get what they expect"},
    {"resolver", "names are resolved as the system does, or by `dns.servers`"},
    {"map", "conditions on requests: `match` of routes; keys of clients: `auth`"},
    {"geo", "conditions on addresses: `match.client` of routes"},
    {"if", "preflights: `cors` of a route; other conditions: its `match`"},
    {"set", "only texts in `proxy_pass` count"},
    {"set_real_ip_from", "name the networks in `trusted_proxies` of the listener"},
    {"real_ip_header", "`trusted_proxies` of the listener reads x-forwarded-for"}};

/// True for a directive that turns off what is off here.
bool turns_off(const NginxDirective& each) {
  constexpr std::string_view names[] = {"gzip",
                                        "proxy_cache",
                                        "proxy_redirect",
                                        "auth_basic",
                                        "proxy_ignore_client_abort",
                                        "limit_req_dry_run"};
  return each.argument() == "off" && std::ranges::find(names, each.name()) != std::end(names);
}

/// True for a header field that evenkeel sets or keeps itself.
bool is_forwarding_field(const NginxDirective& each) {
  const std::string field = lower_case(each.argument());
  if (field == "host") return each.words.size() == 3 && each.words[2].starts_with('$');
  std::string same = "$http_" + field;  // passed on as it comes
  std::ranges::replace(same, '-', '_');
  if (each.words.size() == 3 && each.words[2] == same) return true;
  return field.starts_with("x-forwarded-") || field == "x-real-ip" || field == "connection" ||
         field == "upgrade" || field == "x-request-id";
}

void mark_needless(NginxDirective& block) {
  for (NginxDirective& each : block.children) {
    const bool upgrades = each.name() == "map" && each.argument() == "$http_upgrade";
    const bool mime = each.name() == "include" && each.argument().ends_with("mime.types");
    if (upgrades) each.children.clear();  // they are no directives
    if (needless().contains(each.name()) || mime || upgrades || turns_off(each)) each.used = true;
    if (each.name().ends_with("_set_header") && is_forwarding_field(each)) each.used = true;
    mark_needless(each);
  }
}

/// A local syslog, as `access_log.path` names it.
std::optional<std::string> local_syslog(std::string_view path) {
  constexpr std::string_view prefix = "syslog:server=unix:";
  if (!path.starts_with(prefix)) return std::nullopt;
  path.remove_prefix(prefix.size());
  path = path.substr(0, path.find(','));
  if (!path.starts_with('/')) return std::nullopt;
  return path == "/dev/log" ? "syslog" : "syslog:" + std::string(path);
}

/// A server and the routes that it stands for.
struct Server {
  NginxDirective* block = nullptr;
  std::vector<PlacedRoute> routes;  ///< without hosts
  std::vector<std::string> hosts;
  bool has_other_names = false;  ///< that routes cannot say
};

/// An address, and the servers that listen on it.
struct Listening {
  ListenerConfig listener;
  int line = 0;
  bool is_secure = false;
  std::vector<std::size_t> servers;
  std::size_t default_server = 0;  ///< takes the hosts that no other one names
  bool has_default = false;        ///< else it is the first one
  bool is_ipv6_only = false;
};

class NginxImport {
 public:
  NginxImport(NginxDirective& root, std::string_view listen) : root_(root), draft_(listen) {}

  Import run();

 private:
  void read_process();
  void read_server(NginxDirective& block, const NginxScope& http);
  void read_names(NginxDirective& each, Server& server);
  bool read_listen(NginxDirective& listen, const NginxScope& server);
  Listening* listening_at(std::string_view address, int line);
  void read_tls(ListenerConfig& listener, const NginxScope& server);
  void read_limits(ListenerConfig& listener, const NginxScope& server);
  void read_log(const NginxScope& server);
  void finish_log();
  void serve();
  std::vector<PlacedRoute> routes_at(const Listening& place);
  void report_unused(const NginxDirective& block);

  NginxDirective& root_;
  Draft draft_;
  std::optional<NginxPools> pools_;
  std::optional<NginxLimits> limits_;
  std::optional<NginxKeys> keys_;
  std::vector<Server> servers_;
  std::list<Listening> places_;
  std::string log_;
  bool has_no_log_ = false;   // a server without an access log
  bool is_combined_ = false;  // nginx's own format
};

Import NginxImport::run() {
  mark_needless(root_);
  const auto block = std::ranges::find(root_.children, "http", &NginxDirective::name);
  NginxDirective& http = block == root_.children.end() ? root_ : *block;
  http.used = true;
  pools_.emplace(draft_, http);
  limits_.emplace(draft_, root_);
  keys_.emplace(draft_, root_);
  const NginxScope scope(http);
  for (NginxDirective& each : http.children) {
    if (each.name() == "server") read_server(each, scope);
  }
  std::vector<std::vector<PlacedRoute>*> routes;
  for (Server& each : servers_) routes.push_back(&each.routes);
  keys_->finish(routes);
  serve();
  limits_->finish(*keys_);
  finish_log();
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

void NginxImport::read_names(NginxDirective& each, Server& server) {
  each.used = true;
  for (const std::string& name : each.arguments()) {
    if (name == "_" || name.empty()) continue;
    const auto host = host_pattern(name);
    if (!host) {
      server.has_other_names = true;
      draft_.leave_out(each.line, std::vector<std::string>{"server_name", name});
      continue;
    }
    if (name.starts_with('.')) server.hosts.push_back(host->substr(2));
    server.hosts.push_back(*host);
  }
}

void NginxImport::read_server(NginxDirective& block, const NginxScope& http) {
  const NginxScope scope(block, &http);
  bool listens = false;
  bool is_read = false;
  for (NginxDirective& each : block.children) {
    if (each.name() != "listen") continue;
    listens = true;
    is_read = read_listen(each, scope) || is_read;
  }
  NginxDirective standard{{"listen", "80"}, block.line, {}};
  if (!listens) is_read = read_listen(standard, scope);
  if (!is_read) return;
  block.used = true;
  Server server{.block = &block};
  for (NginxDirective& each : block.children) {
    if (each.name() == "server_name") read_names(each, server);
  }
  server.routes = NginxLocations(draft_, *pools_, *limits_, *keys_).routes_of(scope);
  if (std::ranges::any_of(server.routes, &PlacedRoute::passes)) read_log(scope);
  servers_.push_back(std::move(server));
}

void NginxImport::read_log(const NginxScope& server) {
  const NginxDirective* log = server.find("access_log");
  if (log == nullptr) return;
  const auto syslog = local_syslog(log->argument());
  const std::string path = syslog ? *syslog : std::string(log->argument());
  if (path == "off") {
    has_no_log_ = true;
  } else if ((!syslog && path.starts_with("syslog:")) || path.find('$') != path.npos) {
    draft_.leave_out(log->line, log->words, "name the log in `access_log`");
  } else if (log_.empty()) {
    log_ = path;
    const auto arguments = log->arguments();
    is_combined_ = arguments.size() < 2 || arguments[1] == "combined";
    if (!is_combined_) {
      draft_.note(log->line,
                  "the access log is JSON, one object a line; `access_log.format` has others");
    } else if (!syslog) {
      draft_.note(log->line, "give the access log another path while nginx still writes there");
    }
  } else if (log_ != path) {
    draft_.leave_out(log->line, log->words, "all requests are in one log");
  }
}

void NginxImport::finish_log() {
  if (!log_.empty()) draft_.config.access_log.path = log_;
  if (is_combined_) draft_.config.access_log.format = "combined";
  if (has_no_log_ && log_.empty()) draft_.config.access_log.path = "off";
  if (has_no_log_ && !log_.empty()) {
    draft_.note(0, "access_log off of some servers is left out: all requests are in one log");
  }
}

/// The servers of an address; null if it is none, or not the chosen one.
Listening* NginxImport::listening_at(std::string_view address, int line) {
  const auto read = draft_.listened(address, line);
  if (!read) return nullptr;
  for (Listening& each : places_) {
    if (each.listener.address == *read) return &each;
  }
  if (places_.size() == max_listeners) return nullptr;
  return &places_.emplace_back(Listening{.listener = {.address = *read}, .line = line});
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
  Listening* place = listening_at(address, listen.line);
  if (place == nullptr) return false;
  const std::size_t number = servers_.size();
  if (place->servers.empty() || place->servers.back() != number) place->servers.push_back(number);
  const bool is_all_ipv6 = place->listener.address.host == "::";
  if (place->servers.size() == 1) place->is_ipv6_only = is_all_ipv6;
  if (has("ipv6only=off")) place->is_ipv6_only = false;
  read_limits(place->listener, server);
  const NginxDirective* everywhere = server.find("ssl");
  if (has("ssl") || (everywhere && everywhere->argument() == "on")) {
    place->is_secure = true;
    read_tls(place->listener, server);
  }
  if (has("proxy_protocol")) {
    draft_.leave_out(listen.line, listen.words, "name the networks in `proxy_protocol`");
  }
  const bool is_default = has("default_server") || has("default");
  if (place->servers.size() == 1 || (is_default && !place->has_default)) {
    place->default_server = number;
  }
  place->has_default = place->has_default || is_default;
  return true;
}

void NginxImport::read_tls(ListenerConfig& listener, const NginxScope& server) {
  const NginxDirective* cert = server.find("ssl_certificate");
  const NginxDirective* key = server.find("ssl_certificate_key");
  if (cert == nullptr || key == nullptr || cert->argument().empty() || key->argument().empty()) {
    return;
  }
  if (!listener.tls) listener.tls.emplace();
  CertificateConfig pair{std::string(cert->argument()), std::string(key->argument())};
  auto& all = listener.tls->certificates;
  if (std::ranges::find(all, pair) == all.end()) all.push_back(std::move(pair));
  if (const NginxDirective* ca = server.find("ssl_client_certificate")) {
    const NginxDirective* verify = server.find("ssl_verify_client");
    const std::string_view rule = verify ? verify->argument() : "off";
    const bool requires_it = rule == "on";
    const bool is_required =
        !listener.tls->client_ca.empty() && listener.tls->client_auth == ClientAuth::require;
    if (requires_it || (rule == "optional" && !is_required)) {
      listener.tls->client_ca = ca->argument();
      listener.tls->client_auth = requires_it ? ClientAuth::require : ClientAuth::request;
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
    if (const auto time = time_above_zero(draft_, server, name)) *into = *time;
  }
}

void NginxImport::serve() {
  for (Listening& place : places_) {
    const std::string address = to_string(place.listener.address);
    if (place.is_secure && !place.listener.tls) {
      draft_.note(place.line, "left out: address " + address + ", which has no ssl_certificate");
      continue;
    }
    std::vector<PlacedRoute> routes = routes_at(place);
    const Address ipv4{"0.0.0.0", place.listener.address.port};
    const bool widens = place.is_ipv6_only && std::ranges::none_of(places_, [&](const auto& each) {
                          return each.listener.address == ipv4;
                        });
    if (widens && std::ranges::any_of(routes, &PlacedRoute::passes)) {
      draft_.warn(place.line, address + " takes IPv4 too; in the file it does not");
    }
    const int line = servers_[place.servers.front()].block->line;
    const bool goes_on = draft_.serve({.listener = place.listener,
                                       .owner = "server of line " + std::to_string(line),
                                       .line = place.line,
                                       .routes = std::move(routes)});
    if (!goes_on) return;
  }
}

/// Names before patterns, longer ones first, patterns before what takes every host.
std::vector<PlacedRoute> NginxImport::routes_at(const Listening& place) {
  struct Named {
    std::string host;
    const Server* server;
    std::size_t number;  // in the order of the file
  };
  std::vector<Named> hosts;
  bool all_said = true;
  for (const std::size_t number : place.servers) {
    const Server& server = servers_[number];
    const bool is_default = number == place.default_server;
    all_said = all_said && (is_default || !server.has_other_names);
    if (place.servers.size() == 1) continue;
    for (const std::string& host : server.hosts) hosts.push_back({host, &server, hosts.size()});
  }
  std::ranges::sort(hosts, {}, [](const Named& each) {
    const bool is_pattern = each.host.starts_with("*.");
    const auto length = static_cast<int>(is_pattern ? each.host.size() : 0);
    return std::tuple(is_pattern, -length, each.number);
  });
  const Server& others = servers_[place.default_server];
  if (all_said) {
    hosts.push_back({"", &others, hosts.size()});
  } else {
    draft_.note(others.block->line,
                "left out: other hosts than those of server_name, some of which another server "
                "takes in a way that routes cannot say");
  }
  std::vector<PlacedRoute> routes;
  for (const auto& [host, server, number] : hosts) {
    for (const PlacedRoute& each : server->routes) {
      if (routes.size() > max_routes) return routes;
      routes.push_back(each);
      routes.back().route.match.host = host;
    }
  }
  return routes;
}

void NginxImport::report_unused(const NginxDirective& block) {
  for (const NginxDirective& each : block.children) {
    if (each.used) {
      if (!needless().contains(each.name())) report_unused(each);
      continue;
    }
    std::vector<std::string> words = each.words;
    if (!each.children.empty()) words.emplace_back("{ ... }");
    const auto* const cure = std::ranges::find(cures, each.name(), &Cure::name);
    std::string_view why = cure == std::end(cures) ? "" : cure->text;
    const bool is_include = each.name() == "include";
    if (is_include) why = "not followed: import that file too; its rules are lost";
    const bool in_server = is_include && !block.words.empty();
    draft_.leave_out(each.line, words, why,
                     !block.closed && (in_server || (cure != std::end(cures) && cure->opens)));
  }
}

}  // namespace

Import import_nginx(std::string_view text, std::string_view listen) {
  auto parsed = parse_nginx(text);
  if (const auto* error = std::get_if<SyntaxError>(&parsed)) {
    return {.config = {}, .notes = {}, .error = {error->line, error->message}};
  }
  return NginxImport(std::get<NginxDirective>(parsed), listen).run();
}

}  // namespace evenkeel::import
