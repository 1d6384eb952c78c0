#include "import/draft.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/base/utf8.h"
#include "evenkeel/config/address.h"
#include "evenkeel/config/load.h"

namespace evenkeel::import {
namespace {

constexpr std::size_t max_name = 64;
constexpr std::size_t max_shown = 90;

/// How many words of a statement are shown: what follows may be a secret.
std::size_t shown_words(std::span<const std::string> words) {
  struct Rule {
    std::string_view name;
    std::size_t words;
  };
  constexpr std::size_t all = 1'000;
  constexpr Rule rules[] = {{"location", all},      {"server", all},
                            {"server_name", all},   {"listen", all},
                            {"include", all},       {"bind", all},
                            {"backend", all},       {"frontend", all},
                            {"defaults", all},      {"default_backend", all},
                            {"proxy_pass", all},    {"grpc_pass", all},
                            {"upstream", all},      {"balance", all},
                            {"mode", all},          {"timeout", all},
                            {"limit_req", all},     {"limit_req_zone", all},
                            {"limit_conn", all},    {"allow", all},
                            {"deny", all},          {"access_log", all},
                            {"limit_except", all},  {"userlist", 2},
                            {"use_backend", 2},     {"acl", 3},
                            {"http-request", 2},    {"http-response", 2},
                            {"tcp-request", 2},     {"tcp-response", 2},
                            {"option", 2},          {"stats", 2},
                            {"stick-table", all},   {"proxy_set_header", 2},
                            {"grpc_set_header", 2}, {"set", 2},
                            {"add_header", 2},      {"rewrite", 2},
                            {"server-template", 4}, {"redirect", 2}};
  const auto* rule = std::ranges::find(rules, words.front(), &Rule::name);
  if (words.size() > 1 && words.front().starts_with("http-re") && words[1].ends_with("-header")) {
    return 3;
  }
  return rule == std::end(rules) ? 1 : rule->words;
}

/// The text without the user and password of a URL.
std::string without_user(std::string_view text) {
  const std::size_t at = text.rfind('@');
  const std::size_t scheme = text.find("://");
  const std::size_t begin = scheme == text.npos ? 0 : scheme + 3;
  if (at == text.npos || at <= begin || text.find('/', begin) < at) return std::string(text);
  return std::string(text.substr(0, begin)) + "..." + std::string(text.substr(at));
}

/// A statement as a note shows it.
std::string shown(std::span<const std::string> words) {
  const auto read = words.first(std::min(words.size(), shown_words(words)));
  std::string text;
  for (const std::string& word : read) {
    if (!text.empty()) text += ' ';
    text += without_user(word);
    if (text.size() > max_shown) break;
  }
  if (read.size() < words.size()) text += words.back() == "{ ... }" ? " { ... }" : " ...";
  text = printable_utf8(text);
  if (text.size() > max_shown) {
    text.resize(max_shown);
    text = printable_utf8(text) + "...";
  }
  return text;
}

std::string name_like(std::string_view wanted) {
  std::string name(wanted.substr(0, max_name));
  for (char& c : name) {
    if (!is_letter_or_digit(c) && c != '.' && c != '_') c = '-';
  }
  while (!name.empty() && !is_letter_or_digit(name.front())) name.erase(0, 1);
  while (name.ends_with('-')) name.pop_back();
  return name.empty() ? "pool" : name;
}

/// True for all addresses of IPv4, or of IPv6.
bool is_all(const Address& each) { return each.host == "0.0.0.0" || each.host == "::"; }

/// All of a match in one text.
std::string text_of(const RouteMatch& match) {
  std::string text = match.host + '\n' + match.path + '\n' + match.path_regex;
  for (const Network& client : match.client) text.append("\nc").append(client.text);
  for (const auto& [name, value] : match.header)
    text.append("\nh").append(name).append(" ").append(value);
  for (const std::string& method : match.method) text.append("\nm").append(method);
  for (const std::string& model : match.model) text.append("\nn").append(model);
  return text;
}

}  // namespace

std::string Draft::Names::unique(const std::string& wanted) {
  if (taken_.insert(wanted).second) return wanted;
  for (int& number = last_.try_emplace(wanted, 1).first->second;;) {
    const std::string suffix = '-' + std::to_string(++number);
    const std::string name = wanted.substr(0, max_name - suffix.size()) + suffix;
    if (taken_.insert(name).second) return name;
  }
}

Draft::Draft(std::string_view listen) : chosen_text_(listen) {
  config.listeners.clear();
  std::string why;
  const std::string address = (parse_count(listen) ? ":" : "") + chosen_text_;
  if (!listen.empty()) chosen_ = parse_address(address, why);
  if (!why.empty()) refusal_ = ImportNote{0, "--listen " + chosen_text_ + ": " + why};
}

void Draft::add_note(int line, std::string text, bool opens) {
  // What opens is never lost among what does not.
  if (opens || notes_.size() < max_notes) notes_.push_back({line, std::move(text), opens});
}

void Draft::note(int line, std::string text) { add_note(line, std::move(text), false); }

void Draft::warn(int line, std::string text) { add_note(line, std::move(text), true); }

void Draft::leave_out(int line, std::span<const std::string> words, std::string_view why,
                      bool opens) {
  std::string text = "left out: " + shown(words);
  if (!why.empty()) text.append(" (").append(why).append(")");
  add_note(line, std::move(text), opens);
}

PoolConfig& Draft::add_pool(std::string_view wanted) {
  PoolConfig& pool = config.pools.emplace_back();
  pool.name = pools_.unique(name_like(wanted));
  set_engine(pool, "auto");
  return pool;
}

void Draft::set_engine(PoolConfig& pool, std::string_view engine) {
  pool.engine = engine;
  pool.keep_alive.idle = default_keep_alive_idle(engine);
  pool.health.timeout = default_health_timeout(engine);
}

BackendConfig* Draft::add_backend(PoolConfig& pool, std::string_view host_and_port, bool secure,
                                  int line) {
  std::string why;
  const std::string url = std::string(secure ? "https://" : "http://").append(host_and_port);
  const auto address = parse_backend_address(url, why);
  if (!address) {
    note(line, "left out: server " +
                   printable_utf8(without_user(host_and_port.substr(0, max_shown))) + " (" +
                   printable_utf8(why) + ")");
    return nullptr;
  }
  const bool known = std::ranges::any_of(pool.backends, [&](const BackendConfig& each) {
    return each.address.host == address->host && each.address.port == address->port;
  });
  if (known || pool.backends.size() == max_backends) {
    note(line, "left out: server " + to_string(*address) +
                   (known ? " (the pool has it already)" : " (the pool has too many)"));
    return nullptr;
  }
  return &pool.backends.emplace_back(BackendConfig{.address = *address});
}

std::optional<Address> Draft::listened(std::string_view text, int line) {
  std::string why;
  auto address = parse_address(text, why);
  if (!address) {
    note(line, "left out: address " + printable_utf8(text.substr(0, max_shown)) + " (" +
                   printable_utf8(why) + ")");
    return std::nullopt;
  }
  if (listens_.size() < max_listeners) listens_.insert(to_string(*address));
  if (refusal_ || (!chosen_text_.empty() && *address != *chosen_)) return std::nullopt;
  return address;
}

void Draft::add_listener(ListenerConfig listener, int line) {
  for (ListenerConfig& each : config.listeners) {
    const Address& mine = listener.address;
    if (each.address == mine) return;
    if (each.address.port != mine.port || !(is_all(each.address) || is_all(mine))) continue;
    if (is_all(each.address) && is_all(mine)) {
      each.address.host = "::";  // takes IPv4 too
      return;
    }
    note(line, "one listener takes port " + std::to_string(mine.port) + " of all addresses");
    listener.name = each.name;
    if (is_all(mine)) each = std::move(listener);
    return;
  }
  if (config.listeners.size() == max_listeners) return;
  const std::string name =
      config.listeners.empty() ? "public" : "port-" + std::to_string(listener.address.port);
  listener.name = listeners_.unique(name);
  config.listeners.push_back(std::move(listener));
}

bool Draft::serve(Place place) {
  const std::string address = to_string(place.listener.address);
  if (std::ranges::none_of(place.routes, &PlacedRoute::passes)) {
    note(place.line, "left out: address " + address + ", whose requests reach no backend");
    return true;
  }
  const auto same = [](const PlacedRoute& a, const PlacedRoute& b) { return a.route == b.route; };
  if (first_ && !std::ranges::equal(first_->routes, place.routes, same)) {
    refusal_ = ImportNote{
        place.line, place.owner + " (" + address + ") has other routes than " + first_->owner +
                        " (" + to_string(first_->listener.address) +
                        "), and routes here do not depend on the address: choose one with "
                        "--listen ADDRESS, and run an evenkeel for each"};
    return false;
  }
  add_listener(place.listener, place.line);
  if (!first_) first_ = std::move(place);
  return true;
}

bool Draft::add_route(RouteConfig route, int line) {
  if (config.routes.size() == max_routes) {
    note(line, "left out: further routes are too many");
    return false;
  }
  // Behind an answer that may be removed, the same match leads to its pool again.
  const std::string_view kind = route.answers_itself() ? "answer " : "pool ";
  if (matches_.insert(std::string(kind) + text_of(route.match)).second) {
    config.routes.push_back(std::move(route));
  } else if (!route.answers_itself()) {
    note(line, "left out: a route that an earlier one takes whole");
  }
  return true;
}

Import Draft::finished(std::string_view nothing_found) && {
  Import result;
  if (first_) {
    auto& routes = first_->routes;
    while (routes.back().fills) routes.pop_back();
    for (PlacedRoute& each : routes) {
      if (each.closes) each.route.name = "line-" + std::to_string(each.line);
      if (!add_route(std::move(each.route), each.line)) break;
    }
  }
  std::ranges::sort(notes_, {}, [](const ImportNote& note) {
    return std::tuple(!note.opens, note.line, std::string_view(note.text));
  });
  const auto repeated = std::ranges::unique(notes_, [](const ImportNote& a, const ImportNote& b) {
    return a.line == b.line && a.text == b.text;
  });
  notes_.erase(repeated.begin(), repeated.end());
  result.notes = std::move(notes_);
  if (refusal_) {
    result.error = std::move(*refusal_);
    return result;
  }
  if (chosen_ && !first_) {
    result.error = {0, "nothing that listens at " + chosen_text_ + " leads to a backend"};
    for (const std::string& each : listens_) {
      if (result.error.text.size() < max_name * 3) result.error.text += "; the file has " + each;
    }
    return result;
  }
  if (config.pools.empty() || config.routes.empty()) {
    result.error = {0, std::string(nothing_found)};
    return result;
  }
  if (config.listeners.empty()) config.listeners.emplace_back();
  for (PoolConfig& pool : config.pools) {
    const bool all_standby = std::ranges::all_of(pool.backends, &BackendConfig::standby);
    for (BackendConfig& each : pool.backends) each.standby = each.standby && !all_standby;
    if (pool.protocol == PoolConfig{}.protocol) pool.protocol = default_protocol(pool);
  }
  std::set<std::string> names;
  for (std::size_t at = 0; at < config.routes.size(); ++at) {
    RouteConfig& route = config.routes[at];
    const std::string wanted = route.match.host + route.match.path + route.match.path_regex;
    const bool is_other = wanted.empty() || !names.insert(wanted).second;
    if (route.name.empty()) route.name = is_other ? "route-" + std::to_string(at + 1) : wanted;
    route.name = routes_.unique(route.name);
  }
  const RouteConfig& first = config.routes.front();
  if (config.pools.size() == 1 && config.routes.size() == 1 && first.match == RouteMatch{}) {
    config.routes.front().name = "default";
  }
  result.config = std::move(config);
  return result;
}

bool passes_check(RouteConfig route) {
  Config config;
  config.pools.push_back({.name = "pool", .backends = {{.address = {"localhost", 80}}}});
  if (!route.answers_itself()) route.targets = {{.pool = "pool"}};
  config.routes.push_back(std::move(route));
  return read_config(print_config(config, false), "", {}).problems.empty();
}

RouteConfig answer(RouteMatch match, int status) {
  RouteConfig route{.match = std::move(match)};
  route.respond.emplace().status = status;
  return route;
}

std::optional<std::string_view> value_of(std::string_view word, std::string_view key) {
  if (!word.starts_with(key)) return std::nullopt;
  return word.substr(key.size());
}

std::optional<std::uint32_t> parse_count(std::string_view text) {
  return parse_number<std::uint32_t>(text);
}

std::optional<milliseconds> parse_time(std::string_view text, milliseconds plain) {
  struct Unit {
    std::string_view name;
    double factor;  // in milliseconds
  };
  constexpr Unit units[] = {{"us", 1e-3},  {"ms", 1},      {"s", 1e3},     {"m", 60e3},
                            {"h", 3600e3}, {"d", 86400e3}, {"w", 604800e3}};
  if (text.empty()) return std::nullopt;
  double total = 0;
  while (!text.empty()) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const auto number = parse_count(text.substr(0, digits));
    if (!number) return std::nullopt;
    text.remove_prefix(digits);
    const std::size_t letters = std::min(text.find_first_of("0123456789 "), text.size());
    const auto* unit = std::ranges::find(units, text.substr(0, letters), &Unit::name);
    if (letters > 0 && unit == std::end(units)) return std::nullopt;
    total += *number * (letters == 0 ? static_cast<double>(plain.count()) : unit->factor);
    text = trimmed(text.substr(letters));
  }
  if (total == 0) return milliseconds{};
  const double most = static_cast<double>(max_time.count());
  return milliseconds(static_cast<milliseconds::rep>(std::clamp(total, 1.0, most)));
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t unit = 1;
  const char last = text.empty() ? '\0' : to_lower(text.back());
  if (last == 'k') unit = 1024;
  if (last == 'm') unit = 1024UL * 1024;
  if (last == 'g') unit = 1024UL * 1024 * 1024;
  if (unit > 1) text.remove_suffix(1);
  const auto count = parse_count(text);
  if (!count) return std::nullopt;
  return std::min(*count * unit, std::uint64_t{1} << 40U);
}

std::optional<std::string> host_pattern(std::string_view host) {
  std::string lower = lower_case(host.starts_with('.') ? "*" + std::string(host) : host);
  while (lower.ends_with('.')) lower.pop_back();
  const std::string_view labels = std::string_view(lower).substr(lower.starts_with("*.") ? 2 : 0);
  const bool good =
      !labels.empty() && labels.size() < 254 &&
      std::ranges::all_of(
          labels, [](char c) { return is_letter_or_digit(c) || c == '-' || c == '.' || c == '_'; });
  if (!good || labels.find("..") != std::string_view::npos || labels.starts_with('.')) {
    return std::nullopt;
  }
  return lower;
}

std::optional<std::string> field_name(std::string_view name) {
  const bool good = !name.empty() && std::ranges::all_of(name, [](char c) {
    return is_letter_or_digit(c) || c == '-' || c == '_';
  });
  if (!good) return std::nullopt;
  return lower_case(name);
}

std::optional<std::string> path_pattern(std::string_view path, bool below) {
  const bool good = path.starts_with('/') && path.find_first_of("*?#% \t{}\"'\\") == path.npos &&
                    path.find("//") == path.npos &&
                    (std::string(path) + '/').find("/./") == path.npos &&
                    (std::string(path) + '/').find("/../") == path.npos &&
                    printable_utf8(path) == path && path.size() < 1024;
  if (!good) return std::nullopt;
  std::string pattern(path);
  if (!below) return pattern;
  while (pattern.ends_with('/')) pattern.pop_back();
  return pattern + "/**";
}

}  // namespace evenkeel::import
