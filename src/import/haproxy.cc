#include "import/haproxy.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "evenkeel/base/utf8.h"
#include "import/haproxy_conditions.h"
#include "import/haproxy_pools.h"
#include "import/haproxy_syntax.h"

namespace evenkeel::import {
namespace {

constexpr milliseconds plain_milliseconds{1};

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

/// A `use_backend` or `default_backend`, or the servers of a `listen` section itself.
struct Use {
  RouteMatch match;
  std::string section;
  int line = 0;
};

class HaproxyImport {
 public:
  explicit HaproxyImport(std::vector<HaproxySection>& sections) : sections_(sections) {}

  Import run();

 private:
  void read_global(HaproxySection& global);
  bool speaks_http(HaproxySection& section, std::string_view default_mode);
  void read_frontend(HaproxySection& section, HaproxySection* defaults);
  void read_frontend_line(HaproxyLine& line, HaproxyConditions& conditions);
  void read_use(HaproxyLine& line, const HaproxyConditions& conditions);
  void read_bind(HaproxyLine& line, const ListenerConfig& settings);
  bool read_bind_parameters(const HaproxyLine& line, ListenerConfig& listener);
  static void read_limits(ListenerConfig& settings, HaproxySection& section);
  void add_routes();
  void report_unused();

  std::vector<HaproxySection>& sections_;
  Draft draft_;
  std::map<std::string, std::pair<HaproxySection*, HaproxySection*>, std::less<>> pools_;
  std::map<std::string, std::string, std::less<>> pool_names_;  // "": no usable server
  std::vector<Use> uses_;
  std::vector<Use> defaults_;
  std::string crt_base_;
  int frontends_ = 0;
};

Import HaproxyImport::run() {
  HaproxySection* defaults = nullptr;
  std::string_view default_mode = "tcp";
  std::vector<std::pair<HaproxySection*, HaproxySection*>> frontends;
  for (HaproxySection& section : sections_) {
    if (section.kind() == "global") read_global(section);
    if (section.kind() == "defaults") {
      defaults = &section;
      default_mode = mode_of(section, "tcp");
      section.head.used = true;
    }
    const bool has_servers = section.kind() == "backend" || section.kind() == "listen";
    const bool has_binds = section.kind() == "frontend" || section.kind() == "listen";
    if (!has_servers && !has_binds) continue;
    if (!speaks_http(section, default_mode)) continue;
    if (has_servers) pools_.try_emplace(std::string(section.name()), &section, defaults);
    if (has_binds) frontends.emplace_back(&section, defaults);
  }
  for (const auto& [section, its_defaults] : frontends) read_frontend(*section, its_defaults);
  add_routes();
  report_unused();
  return std::move(draft_).finished(
      "no frontend of the file leads to a backend with servers that can be kept (mode http)");
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

void HaproxyImport::read_frontend(HaproxySection& section, HaproxySection* defaults) {
  const bool leads_on = std::ranges::any_of(section.lines, [](const HaproxyLine& line) {
    return line.keyword() == "server" || line.keyword().ends_with("_backend");
  });
  if (!leads_on) return;  // statistics, redirections
  section.head.used = true;
  if (++frontends_ > 1) {
    draft_.note(section.head.line, section.kind() + " " + printable_utf8(section.name()) +
                                       ": routes do not depend on the listener; tell its requests "
                                       "apart by `match.host` or `match.path`");
  }
  ListenerConfig settings;
  if (defaults) read_limits(settings, *defaults);
  read_limits(settings, section);
  HaproxyConditions conditions;
  for (HaproxyLine& line : section.lines) {
    if (line.keyword() == "bind") read_bind(line, settings);
    read_frontend_line(line, conditions);
  }
  const bool has_servers = std::ranges::any_of(
      section.lines, [](const HaproxyLine& line) { return line.keyword() == "server"; });
  if (has_servers) defaults_.push_back({{}, std::string(section.name()), section.head.line});
}

void HaproxyImport::read_frontend_line(HaproxyLine& line, HaproxyConditions& conditions) {
  if (line.keyword() == "acl" && line.words.size() > 2) {
    line.used = conditions.add(line.word(1), line.arguments().subspan(1));
  } else if (line.keyword() == "use_backend" && line.words.size() > 1) {
    read_use(line, conditions);
  } else if (line.keyword() == "default_backend" && line.words.size() > 1) {
    line.used = true;
    defaults_.push_back({{}, line.words[1], line.line});
  }
}

void HaproxyImport::read_use(HaproxyLine& line, const HaproxyConditions& conditions) {
  line.used = true;
  if (line.words.size() == 2) {
    uses_.push_back({{}, line.words[1], line.line});
    return;
  }
  const auto found =
      line.words[2] == "if" ? conditions.read(line.arguments().subspan(2)) : std::nullopt;
  if (!found || line.words[1].find('%') != std::string::npos) {
    draft_.leave_out(line.line, line.words, "routes cannot say this condition");
    return;
  }
  if (uses_.size() > max_routes) return;
  for (const RouteMatch& match : *found) uses_.push_back({match, line.words[1], line.line});
}

void HaproxyImport::read_bind(HaproxyLine& line, const ListenerConfig& settings) {
  line.used = true;
  std::string_view addresses = line.word(1);
  while (!addresses.empty()) {
    std::string_view address = addresses.substr(0, addresses.find(','));
    addresses.remove_prefix(std::min(addresses.size(), address.size() + 1));
    for (const std::string_view family : {"ipv4@", "ipv6@"}) {
      address = value_of(address, family).value_or(address);
    }
    ListenerConfig* listener = draft_.listener_at(address, line.line);
    if (listener == nullptr) continue;
    listener->timeouts = settings.timeouts;
    listener->limits = settings.limits;
    if (!read_bind_parameters(line, *listener)) {
      draft_.leave_out(line.line, line.words, "TLS without a crt");
    }
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
    } else {
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
    const auto time = parse_time(line.word(2), plain_milliseconds);
    if (line.keyword() == "timeout" && time) {
      const std::string_view what = line.word(1);
      if (what == "http-request") settings.timeouts.header = *time;
      if (what == "http-keep-alive") settings.timeouts.idle = *time;
      if (what == "client") settings.timeouts.body = settings.timeouts.write = *time;
      if (what == "http-request" || what == "http-keep-alive" || what == "client") line.used = true;
    }
    if (line.keyword() == "maxconn") {
      settings.limits.max_connections =
          std::min(parse_count(line.word(1)).value_or(0), 10'000'000U);
      line.used = true;
    }
  }
}

void HaproxyImport::add_routes() {
  for (const std::vector<Use>* uses : {&uses_, &defaults_}) {
    for (const Use& use : *uses) {
      const auto section = pools_.find(use.section);
      if (section == pools_.end()) {
        draft_.note(use.line, "left out: the route to " +
                                  printable_utf8(use.section.substr(0, 90)) +
                                  ", which is no backend of the file");
        continue;
      }
      const auto [name, is_new] = pool_names_.try_emplace(use.section);
      if (is_new && add_haproxy_pool(draft_, *section->second.first, section->second.second)) {
        name->second = draft_.config.pools.back().name;
      }
      const bool added =
          name->second.empty() || draft_.add_route(use.match, {{.pool = name->second}}, use.line);
      if (!added) return;
    }
  }
}

void HaproxyImport::report_unused() {
  for (const HaproxySection& section : sections_) {
    if (!section.head.used) {
      draft_.leave_out(section.head.line, section.head.words);
      continue;
    }
    for (const HaproxyLine& line : section.lines) {
      if (!line.used && !is_needless(line)) draft_.leave_out(line.line, line.words);
    }
  }
}

}  // namespace

Import import_haproxy(std::string_view text) {
  auto parsed = parse_haproxy(text);
  if (const auto* error = std::get_if<SyntaxError>(&parsed)) {
    return {.config = {}, .notes = {}, .error = {error->line, error->message}};
  }
  return HaproxyImport(std::get<std::vector<HaproxySection>>(parsed)).run();
}

}  // namespace evenkeel::import
