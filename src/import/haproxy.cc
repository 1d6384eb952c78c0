#include "import/haproxy.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "evenkeel/base/utf8.h"
#include "import/haproxy_pools.h"
#include "import/haproxy_rules.h"
#include "import/haproxy_syntax.h"

namespace evenkeel::import {
namespace {

/// Lines that say what evenkeel does by itself, or that concern HAProxy's process alone.
bool is_needless(const HaproxyLine& line) {
  static const std::set<std::string, std::less<>> keywords = {
      "log",  "log-format", "user",       "group",    "daemon",    "chroot",      "pidfile",
      "mode", "retries",    "http-reuse", "fullconn", "errorfile", "description", "option"};
  static const std::set<std::string, std::less<>> left_out_options = {
      "tcplog",  "ssl-hello-chk", "mysql-check",  "redis-check", "pgsql-check",
      "smtpchk", "tcp-check",     "http-use-htx", "httpchk"};
  if (!keywords.contains(line.keyword())) return line.keyword().starts_with("ssl-default-bind");
  return line.keyword() != "option" || !left_out_options.contains(line.word(1));
}

std::string_view mode_of(const HaproxySection& section, std::string_view mode) {
  for (const HaproxyLine& line : section.lines) {
    if (line.keyword() == "mode") mode = line.word(1);
  }
  return mode;
}

/// The section's own line of that keyword; null if there is none.
HaproxyLine* find_line(HaproxySection* section, std::string_view keyword) {
  if (section == nullptr) return nullptr;
  const auto found = std::ranges::find(section->lines, keyword, &HaproxyLine::keyword);
  return found == section->lines.end() ? nullptr : &*found;
}

class HaproxyImport {
 public:
  HaproxyImport(std::vector<HaproxySection>& sections, std::string_view listen)
      : sections_(sections), draft_(listen) {}

  Import run();

 private:
  /// A section and the defaults that apply to it, or null.
  struct Sourced {
    HaproxySection* section = nullptr;
    HaproxySection* defaults = nullptr;
  };

  void read_global(HaproxySection& global);
  HaproxySection* defaults_of(const HaproxySection& section, HaproxySection* last);
  bool speaks_http(HaproxySection& section, std::string_view default_mode);
  bool read_frontend(const Sourced& frontend);
  std::vector<Place> read_binds(const Sourced& frontend);
  void read_bind(HaproxyLine& line, const ListenerConfig& settings, std::vector<Place>& places);
  bool read_bind_parameters(const HaproxyLine& line, ListenerConfig& listener);
  void read_limits(ListenerConfig& settings, HaproxySection& section);
  void add_default(const Sourced& frontend, HaproxyRules& rules);
  std::vector<PlacedRoute> routes_of(const Sourced& frontend, HaproxyRules& rules);
  void add_use(const HaproxyUse& use, const HaproxySection& frontend,
               std::vector<PlacedRoute>& routes);
  HaproxyRules& rules_of_pool(const std::string& section);
  std::string pool_of(const HaproxyUse& use);
  void report_unused();

  std::vector<HaproxySection>& sections_;
  Draft draft_;
  std::map<std::string, HaproxySection*, std::less<>> defaults_;  // by their names
  std::map<std::string, Sourced, std::less<>> pools_;
  std::map<std::string, std::string, std::less<>> pool_names_;  // "": no usable server
  std::map<std::string, HaproxyRules, std::less<>> rules_of_pools_;
  std::string crt_base_;
};

Import HaproxyImport::run() {
  HaproxySection* last = nullptr;
  std::vector<Sourced> frontends;
  for (HaproxySection& section : sections_) {
    if (section.kind() == "global") read_global(section);
    if (section.kind() == "defaults") {
      last = &section;
      section.head.used = true;
      if (!section.name().empty()) defaults_.try_emplace(std::string(section.name()), &section);
      if (section.head.words.size() > 2) draft_.leave_out(section.head.line, section.head.words);
    }
    const bool has_servers = section.kind() == "backend" || section.kind() == "listen";
    const bool has_binds = section.kind() == "frontend" || section.kind() == "listen";
    if (!has_servers && !has_binds) continue;
    HaproxySection* defaults = defaults_of(section, last);
    if (!speaks_http(section, defaults ? mode_of(*defaults, "tcp") : "tcp")) continue;
    if (has_servers) pools_.try_emplace(std::string(section.name()), &section, defaults);
    if (has_binds) frontends.emplace_back(&section, defaults);
  }
  for (const Sourced& frontend : frontends) {
    if (!read_frontend(frontend)) break;
  }
  report_unused();
  return std::move(draft_).finished(
      "no frontend of the file leads to a backend with servers that can be kept (mode http)");
}

/// The defaults that the section names, else the last ones before it.
HaproxySection* HaproxyImport::defaults_of(const HaproxySection& section, HaproxySection* last) {
  if (section.head.word(2) != "from") return last;
  const auto named = defaults_.find(section.head.word(3));
  return named == defaults_.end() ? nullptr : named->second;
}

void HaproxyImport::read_global(HaproxySection& global) {
  global.head.used = true;
  for (HaproxyLine& line : global.lines) {
    if (line.keyword() == "crt-base") {
      crt_base_ = line.word(1);
      line.used = true;
    }
    const auto threads = parse_count(line.word(1));
    if (line.keyword() == "nbthread" && threads) {
      draft_.config.workers = std::min(*threads, 1024U);
      line.used = true;
    }
  }
}

bool HaproxyImport::speaks_http(HaproxySection& section, std::string_view default_mode) {
  if (mode_of(section, default_mode) == "http") return true;
  draft_.leave_out(section.head.line, section.head.words,
                   "mode tcp: evenkeel proxies HTTP and gRPC");
  section.head.used = true;
  for (HaproxyLine& line : section.lines) line.used = true;
  return false;
}

/// False if the routes are others than those of an earlier one.
bool HaproxyImport::read_frontend(const Sourced& frontend) {
  HaproxySection& section = *frontend.section;
  const bool leads_on = std::ranges::any_of(section.lines, [](const HaproxyLine& line) {
    return line.keyword().starts_with("server") || line.keyword().ends_with("_backend");
  });
  const bool by_default =
      section.kind() == "frontend" && find_line(frontend.defaults, "default_backend") != nullptr;
  if (!leads_on && !by_default) return true;  // statistics, redirections
  std::vector<Place> places = read_binds(frontend);
  if (places.empty()) return true;
  section.head.used = true;
  HaproxyRules rules;
  if (frontend.defaults) read_haproxy_rules(draft_, *frontend.defaults, rules);
  read_haproxy_rules(draft_, section, rules);
  add_default(frontend, rules);
  const std::vector<PlacedRoute> routes = routes_of(frontend, rules);
  for (Place& place : places) {
    if (rules.needs_tls && !place.listener.tls) {
      draft_.note(place.line, "left out: address " + to_string(place.listener.address) +
                                  ", whose requests are only redirected");
      continue;
    }
    place.routes = routes;
    if (!draft_.serve(std::move(place))) return false;
  }
  return true;
}

void HaproxyImport::add_default(const Sourced& frontend, HaproxyRules& rules) {
  HaproxySection& section = *frontend.section;
  HaproxyLine* line = find_line(&section, "default_backend");
  const bool is_listen = section.kind() == "listen";
  if (line == nullptr && !is_listen) line = find_line(frontend.defaults, "default_backend");
  if (line != nullptr && line->words.size() > 1) {
    line->used = true;
    rules.uses.push_back({{}, line->words[1], line->line});
  } else if (is_listen) {
    rules.uses.push_back({{}, std::string(section.name()), section.head.line});
  }
}

std::vector<Place> HaproxyImport::read_binds(const Sourced& frontend) {
  ListenerConfig settings;
  if (frontend.defaults) read_limits(settings, *frontend.defaults);
  read_limits(settings, *frontend.section);
  std::vector<Place> places;
  for (HaproxyLine& line : frontend.section->lines) {
    if (line.keyword() == "bind") read_bind(line, settings, places);
  }
  for (Place& place : places) {
    place.owner = frontend.section->kind() + " " + printable_utf8(frontend.section->name());
  }
  return places;
}

void HaproxyImport::read_bind(HaproxyLine& line, const ListenerConfig& settings,
                              std::vector<Place>& places) {
  line.used = true;
  std::string_view addresses = line.word(1);
  while (!addresses.empty()) {
    std::string_view address = addresses.substr(0, addresses.find(','));
    addresses.remove_prefix(std::min(addresses.size(), address.size() + 1));
    for (const std::string_view family : {"ipv4@", "ipv6@"}) {
      address = value_of(address, family).value_or(address);
    }
    // ":::443" is "[::]:443".
    const std::size_t port = std::min(address.rfind(':'), address.size());
    std::string text(address);
    if (address.find(':') < port && !address.starts_with('[')) {
      text = '[' + text.substr(0, port) + ']' + text.substr(port);
    }
    const auto read = draft_.listened(text, line.line);
    if (!read || places.size() == max_listeners) continue;
    ListenerConfig listener = settings;
    listener.address = *read;
    if (!read_bind_parameters(line, listener)) {
      draft_.leave_out(line.line, line.words, "TLS without a crt");
      continue;
    }
    places.push_back({.listener = std::move(listener), .line = line.line});
  }
}

bool HaproxyImport::read_bind_parameters(const HaproxyLine& line, ListenerConfig& listener) {
  bool secure = false;
  std::vector<std::string> unread{"bind", std::string(line.word(1))};
  std::vector<std::string> certificates;
  std::string ca;
  for (std::size_t at = 2; at < line.words.size(); ++at) {
    const std::string_view name = line.word(at);
    if (name == "ssl") {
      secure = true;
    } else if (name == "crt") {
      const std::string path(line.word(++at));
      certificates.push_back(path.starts_with('/') || crt_base_.empty() ? path
                                                                        : crt_base_ + '/' + path);
    } else if (name == "ca-file") {
      ca = line.word(++at);
    } else if (name == "alpn" || name == "name" || name == "verify" || name == "ssl-min-ver") {
      const std::string_view value = line.word(++at);
      if (name == "verify" && value == "none") ca.clear();
    } else if (name != "v4v6") {
      unread.emplace_back(name);
    }
  }
  if (unread.size() > 2) draft_.leave_out(line.line, unread);
  if (!secure) return true;
  std::erase(certificates, "");
  if (certificates.empty()) return false;
  if (!listener.tls) listener.tls.emplace();
  listener.tls->client_ca = ca;
  for (const std::string& path : certificates) {
    if (path.ends_with('/'))
      draft_.note(line.line, "crt names a folder: list its files in `certificates`");
    listener.tls->certificates.push_back({.cert = path, .key = path});
  }
  return true;
}

void HaproxyImport::read_limits(ListenerConfig& settings, HaproxySection& section) {
  for (HaproxyLine& line : section.lines) {
    const std::string_view what = line.word(1);
    const bool mine = what == "http-request" || what == "http-keep-alive" || what == "client";
    if (line.keyword() == "timeout" && mine) {
      const auto time = haproxy_timeout(draft_, line);
      if (!time) continue;
      if (what == "http-request") settings.timeouts.header = *time;
      if (what == "http-keep-alive") settings.timeouts.idle = *time;
      if (what == "client") settings.timeouts.body = settings.timeouts.write = *time;
      line.used = true;
    }
    if (line.keyword() == "maxconn") {
      settings.limits.max_connections =
          std::min(parse_count(line.word(1)).value_or(0), 10'000'000U);
      line.used = true;
    }
  }
}

/// The pool of a use; empty if there is none.
std::string HaproxyImport::pool_of(const HaproxyUse& use) {
  const auto found = pools_.find(use.section);
  if (found == pools_.end()) {
    draft_.note(use.line, "left out: the route to " + printable_utf8(use.section.substr(0, 90)) +
                              ", which is no backend of the file");
    return {};
  }
  const auto& [section, defaults] = found->second;
  const auto [name, is_new] = pool_names_.try_emplace(use.section);
  if (is_new && add_haproxy_pool(draft_, *section, defaults)) {
    name->second = draft_.config.pools.back().name;
  }
  return name->second;
}

/// The rules of a section with servers, read when they are first asked for.
HaproxyRules& HaproxyImport::rules_of_pool(const std::string& section) {
  const auto [rules, is_new] = rules_of_pools_.try_emplace(section);
  const Sourced& pool = pools_.at(section);
  if (is_new && pool.defaults) read_haproxy_rules(draft_, *pool.defaults, rules->second);
  if (is_new) read_haproxy_rules(draft_, *pool.section, rules->second);
  return rules->second;
}

void HaproxyImport::add_use(const HaproxyUse& use, const HaproxySection& frontend,
                            std::vector<PlacedRoute>& routes) {
  PlacedRoute placed{.route = {.match = use.match}, .line = use.line, .closes = use.closes};
  if (use.answer || use.redirect) {
    placed.route.respond = use.answer;
    placed.route.redirect = use.redirect;
    routes.push_back(std::move(placed));
    return;
  }
  const std::string pool = pool_of(use);
  if (pool.empty()) {
    placed.route = answer(use.match, left_out_status);
    placed.closes = true;
    routes.push_back(std::move(placed));
    return;
  }
  const bool is_own = pools_.at(use.section).section == &frontend;  // has read them already
  if (!is_own) {
    for (const HaproxyUse& each : rules_of_pool(use.section).answers) {
      if (routes.size() > max_routes) return;
      PlacedRoute refusal{.line = each.line, .closes = true};
      refusal.route.match = both_or_first(use.match, each.match);
      refusal.route.respond = each.answer;
      refusal.route.redirect = each.redirect;
      routes.push_back(std::move(refusal));
    }
  }
  placed.route.targets.push_back({.pool = pool});
  placed.passes = true;
  routes.push_back(std::move(placed));
}

std::vector<PlacedRoute> HaproxyImport::routes_of(const Sourced& frontend, HaproxyRules& rules) {
  // A condition that cannot be said needs no route where what follows leads to the same backend.
  std::set<std::string_view> later;
  for (auto use = rules.uses.rbegin(); use != rules.uses.rend(); ++use) {
    const bool is_same = later.empty() || (later.size() == 1 && later.contains(use->section));
    if (!use->answer) later.insert(use->section);
    if (use->answer && is_same) use->line = 0;
  }
  std::vector<PlacedRoute> routes;
  for (const std::vector<HaproxyUse>* uses : {&rules.answers, &rules.uses}) {
    for (const HaproxyUse& use : *uses) {
      if (routes.size() > max_routes) return routes;
      if (use.line > 0) add_use(use, *frontend.section, routes);
      const auto of_pool = rules_of_pools_.find(use.section);
      const bool is_redirected = of_pool != rules_of_pools_.end() && of_pool->second.needs_tls;
      rules.needs_tls = rules.needs_tls || is_redirected;
    }
  }
  return routes;
}

void HaproxyImport::report_unused() {
  for (const HaproxySection& section : sections_) {
    if (!section.head.used) {
      draft_.leave_out(section.head.line, section.head.words);
      continue;
    }
    for (const HaproxyLine& line : section.lines) {
      const bool protects = line.keyword() == "filter";
      if (!line.used && !is_needless(line)) {
        draft_.leave_out(line.line, line.words, {}, protects);
      }
    }
  }
}

}  // namespace

Import import_haproxy(std::string_view text, std::string_view listen) {
  auto parsed = parse_haproxy(text);
  if (const auto* error = std::get_if<SyntaxError>(&parsed)) {
    return {.config = {}, .notes = {}, .error = {error->line, error->message}};
  }
  return HaproxyImport(std::get<std::vector<HaproxySection>>(parsed), listen).run();
}

}  // namespace evenkeel::import
