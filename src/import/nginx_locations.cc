#include "import/nginx_locations.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/utf8.h"
#include "import/nginx_fields.h"
#include "import/paths.h"

namespace evenkeel::import {
namespace {

NginxReach reach_of(std::string_view path, bool below) {
  const auto pattern = path_pattern(path, below);
  if (!pattern) return {};
  return {.path = *pattern == "/**" ? "" : *pattern, .is_said = true};
}

/// True for an `if` that refuses nothing and leads nowhere else.
bool is_harmless(const NginxDirective& condition) {
  static const std::set<std::string, std::less<>> harmless = {"set", "add_header", "access_log",
                                                              "expires", "limit_rate"};
  return answers_preflights(condition) ||
         std::ranges::all_of(condition.children, [](const NginxDirective& each) {
           return harmless.contains(each.name());
         });
}

/// True if an included file has nothing to do with access, by its name.
bool is_harmless_file(std::string_view path) {
  constexpr std::string_view parts[] = {"ssl",  "tls",  "proxy", "header",
                                        "mime", "gzip", "log",   "websocket"};
  const std::string name = lower_case(path.substr(path.rfind('/') + 1));
  return std::ranges::any_of(parts,
                             [&](std::string_view part) { return name.find(part) != name.npos; });
}

/// True for a directive that decides who may pass, or where a request goes.
bool is_rule(const NginxDirective& each, bool of_server, bool of_location) {
  const std::string& name = each.name();
  if (name == "if") return !is_harmless(each);
  if (name == "include") return of_server && !is_harmless_file(each.argument());
  if (name == "rewrite") return of_location;  // that of the server has a route of its own
  const bool is_setting = name.ends_with("_file") || name.ends_with("_set");
  if (name.starts_with("auth_")) return !is_setting && each.argument() != "off";
  return name == "limit_except" || name == "internal" || name == "js_access" ||
         name.starts_with("access_by_") || name.starts_with("rewrite_by_");
}

/// True if another proxy tells nginx the addresses of clients.
bool is_behind_proxy(const NginxScope& location) {
  for (const NginxScope* scope = &location; scope != nullptr; scope = scope->outer) {
    for (const NginxDirective* each : scope->settings) {
      const bool listens = each->name() == "listen" &&
                           std::ranges::find(each->words, "proxy_protocol") != each->words.end();
      if (listens || each->name() == "set_real_ip_from") return true;
    }
  }
  return false;
}

/// The networks that may pass where access rules let these in and refuse all others; none: the
/// rules say something else.
std::vector<Network> allowed_clients(const NginxScope& location) {
  const NginxScope* scope = &location;
  while (scope != nullptr && scope->own("deny") == nullptr && scope->own("allow") == nullptr)
    scope = scope->outer;
  const NginxDirective* satisfy = location.find("satisfy");
  if (scope == nullptr || (satisfy != nullptr && satisfy->argument() == "any")) return {};
  if (is_behind_proxy(location)) return {};  // until `trusted_proxies` names it
  std::vector<Network> clients;
  std::vector<NginxDirective*> rules;
  for (NginxDirective* each : scope->settings) {
    if (each->name() != "allow" && each->name() != "deny") continue;
    const bool is_after_all = !rules.empty() && rules.back()->name() == "deny";
    std::string why;
    const auto network = parse_network(each->argument(), why);
    if (is_after_all || (each->name() == "allow" && !network)) return {};
    if (each->name() == "deny" && each->argument() != "all") return {};
    if (network) clients.push_back(*network);
    rules.push_back(each);
  }
  if (rules.back()->name() != "deny") return {};
  if (!clients.empty()) std::ranges::for_each(rules, [](auto* each) { each->used = true; });
  return clients;
}

/// The rewriting of a location, if it is one that routes can say.
std::optional<RewriteConfig> own_rewrite(const NginxScope& location) {
  std::vector<NginxDirective*> found;
  for (NginxDirective* each : location.settings) {
    if (each->name() == "rewrite") found.push_back(each);
  }
  if (found.size() != 1 || found[0]->words.size() != 4 || found[0]->words[3] != "break")
    return std::nullopt;
  auto rewrite = nginx_rewrite(found[0]->words[1], found[0]->words[2]);
  if (rewrite) found[0]->used = true;
  return rewrite;
}

void mark_used(NginxDirective& block) {
  block.used = true;
  for (NginxDirective& each : block.children) mark_used(each);
}

/// The words of a block as a note shows them.
std::vector<std::string> words_of(const NginxDirective& directive) {
  std::vector<std::string> words = directive.words;
  if (!directive.children.empty()) words.emplace_back("{ ... }");
  return words;
}

}  // namespace

NginxReach reach_of_regex(std::string_view regex, bool ignores_case) {
  const auto whole = path_regex_of(regex, ignores_case);
  const bool reads_prefix = regex.starts_with("^/") && !has_alternatives(regex) && !ignores_case;
  if (!reads_prefix) return whole ? NginxReach{.regex = *whole, .is_said = true} : NginxReach{};
  regex.remove_prefix(1);
  std::string literal;
  while (!regex.empty()) {
    const bool is_dot = regex.starts_with("\\.");
    const char c = is_dot ? '.' : regex.front();
    const bool is_plain = is_letter_or_digit(c) || c == '/' || c == '_' || c == '-' || is_dot;
    if (!is_plain) break;
    literal += c;
    regex.remove_prefix(is_dot ? 2 : 1);
  }
  constexpr std::string_view rests[] = {"", ".*", ".*$", "(.*)", "(.*)$"};
  if (std::ranges::find(rests, regex) != std::end(rests)) return reach_of(literal, true);
  if (regex == "$") return reach_of(literal, false);
  if (whole) return {.regex = *whole, .is_said = true};
  if (std::string_view("?*{").find(regex.front()) != std::string_view::npos) literal.pop_back();
  literal.resize(literal.rfind('/') == literal.npos ? 0 : literal.rfind('/') + 1);
  NginxReach reach = reach_of(literal, true);
  reach.is_said = false;
  return reach;
}

void NginxLocations::collect(const NginxScope& outer) {
  constexpr std::array operators = {"=", "^~", "~*", "~"};
  for (NginxDirective& each : outer.block.children) {
    if (each.name() != "location" || each.words.size() < 2) continue;
    std::string_view how = each.words.size() > 2 ? each.argument() : std::string_view();
    std::string_view path = each.words.back();
    for (const std::string_view known : operators) {
      if (!how.empty() || !path.starts_with(known)) continue;
      how = known;
      path.remove_prefix(known.size());
    }
    if (path.starts_with('@')) continue;  // no request has it
    Location location{
        .scope = &scopes_.emplace_back(each, &outer), .path = path, .number = locations_.size()};
    if (how == "=") {
      location.rank = Rank::exact;
      location.reach = reach_of(path, false);
    } else if (how == "~" || how == "~*") {
      location.rank = Rank::regex;
      location.reach = reach_of_regex(path, how == "~*");
    } else {
      location.is_final = how == "^~";
      location.reach = reach_of(path, true);
    }
    // What takes more than it should comes before what it may be taken from.
    if (!location.reach.is_said) location.rank = Rank::regex;
    locations_.push_back(location);
    collect(*location.scope);
  }
}

void NginxLocations::rank_final_prefixes() {
  std::vector<std::string_view> finals;
  bool has_regex = false;
  for (const Location& each : locations_) {
    if (each.is_final) finals.push_back(each.path);
    has_regex = has_regex || each.rank == Rank::regex;
  }
  for (Location& each : locations_) {
    const bool is_below = std::ranges::any_of(
        finals, [&](std::string_view path) { return each.path.starts_with(path); });
    if (each.rank != Rank::prefix || !has_regex || !is_below) continue;
    each.rank = Rank::final_prefix;
    if (each.is_final) continue;
    draft_.warn(each.scope->block.line,
                "`location " + printable_utf8(each.path.substr(0, 60)) +
                    "` is below one with `^~`: no regular expression is tried before it");
  }
}

PlacedRoute NginxLocations::closed(const NginxReach& reach, int status, const NginxDirective& why,
                                   int line) {
  std::string text = "the route line-" + std::to_string(line) + " answers " +
                     std::to_string(status) + " in its place";
  if (!reach.is_said) {
    text += ", and to " + (reach.path.empty() ? "all paths" : reach.path) +
            " that no earlier route takes: remove it if these may go on";
  }
  draft_.leave_out(why.line, words_of(why), text);
  return {.route = answer(reach.match(), status), .line = line, .closes = true};
}

RouteConfig NginxLocations::returned(const NginxReach& reach, NginxDirective& directive) {
  directive.used = true;
  const auto status = parse_count(directive.argument());
  RouteConfig route = answer(reach.match(), left_out_status);
  const bool redirects = !status || (*status > 300 && *status < 309 && directive.words.size() > 2);
  if (redirects) {
    // Without a status, it is 302.
    const std::string_view url = status ? directive.words[2] : directive.argument();
    auto redirect = nginx_redirect(url, static_cast<int>(status.value_or(302)), reach.path);
    if (redirect) {
      route.respond.reset();
      route.redirect = std::move(redirect);
      return route;
    }
    draft_.leave_out(directive.line, directive.words,
                     "a redirection that `redirect` of a route cannot say: evenkeel answers 501 in "
                     "its place");
    return route;
  }
  const bool speaks = *status >= 200 && *status < 600 && *status != 444;  // 444: nginx hangs up
  route.respond->status = speaks ? static_cast<int>(*status) : refused_status;
  std::string body(directive.words.size() > 2 ? directive.words[2] : "");
  for (std::size_t at = 0; (at = body.find("\\n", at)) != std::string::npos; ++at) {
    body.replace(at, 2, "\n");
  }
  std::string visible = body;
  std::erase(visible, '\n');
  const bool is_text = body.find('$') == body.npos && printable_utf8(visible) == visible;
  if (is_text && speaks) route.respond->body = std::move(body);
  return route;
}

/// The rule that requests of a location must meet and its route does not say; null if there is
/// none.
NginxDirective* NginxLocations::other_rule_of(const NginxScope& location, const SaidRules& said) {
  std::set<std::string_view> nearer;
  bool nearer_addresses = false;
  for (const NginxScope* scope = &location; scope != nullptr; scope = scope->outer) {
    bool has_addresses = false;
    std::set<std::string_view> here;
    const std::string_view kind =
        scope->block.words.empty() ? std::string_view() : std::string_view(scope->block.name());
    const bool of_location = kind == "location";
    const bool of_server = kind == "server" || of_location;
    for (NginxDirective* setting : scope->settings) {
      NginxDirective& each = *setting;
      const bool is_address = each.name() == "allow" || each.name() == "deny";
      const bool is_denied = is_address && each.name() == "deny" && said.clients.empty();
      if (is_denied && !nearer_addresses) return &each;
      has_addresses = has_addresses || is_address;
      if (each.name().starts_with("auth_")) here.insert(each.name());
      if (nearer.contains(each.name())) continue;
      const bool is_own_rewrite = each.name() == "rewrite" && scope == &location && said.rewrite;
      const bool is_said =
          is_own_rewrite || std::ranges::find(said.key_checks, &each) != said.key_checks.end();
      if (!is_said && is_rule(each, of_server, of_location)) return &each;
    }
    nearer_addresses = nearer_addresses || has_addresses;
    nearer.merge(here);
  }
  return nullptr;
}

/// True if an `if` may refuse requests or lead them elsewhere.
bool NginxLocations::branches(const NginxScope& location, const SaidRules& said) {
  for (const NginxScope* scope = &location; scope != nullptr; scope = scope->outer) {
    const bool here = std::ranges::any_of(scope->settings, [&](const NginxDirective* each) {
      const bool is_said = std::ranges::find(said.key_checks, each) != said.key_checks.end();
      return each->name() == "if" && !is_said && !is_harmless(*each);
    });
    if (here) return true;
  }
  return false;
}

std::optional<RouteConfig> NginxLocations::passing(const Location& location,
                                                   const SaidRules& said) {
  const NginxScope& scope = *location.scope;
  NginxDirective* pass = scope.own("proxy_pass");
  if (pass == nullptr) pass = scope.own("grpc_pass");
  if (pass == nullptr) return std::nullopt;
  const auto target = pools_.target_of(*pass, scope, location.path, location.rank == Rank::exact);
  if (!target) return std::nullopt;
  RouteConfig route{.match = location.reach.match(), .targets = {{.pool = target->pool}}};
  const RewriteConfig rewrite = said.rewrite.value_or(target->rewrite);
  if (rewrite != RewriteConfig{}) route.rewrite = rewrite;
  read_request_fields(scope, route);
  read_answer_fields(scope, route);
  return route;
}

PlacedRoute NginxLocations::route_of(const Location& location, const SaidRules& said) {
  NginxDirective& block = location.scope->block;
  block.used = true;
  NginxDirective* result = location.scope->own("return");
  if (result != nullptr && location.reach.is_said && !branches(*location.scope, said)) {
    PlacedRoute route{.route = returned(location.reach, *result), .line = block.line};
    read_answer_fields(*location.scope, route.route);
    block.closed = true;
    return route;
  }
  const bool is_internal = location.scope->own("internal") != nullptr;  // no request reaches it
  auto passes = is_internal ? std::nullopt : passing(location, said);
  NginxDirective* rule = other_rule_of(*location.scope, said);
  if (passes && rule == nullptr && location.reach.is_said)
    return {.route = *std::move(passes), .line = block.line, .passes = true};
  if (rule != nullptr) mark_used(*rule);
  PlacedRoute route = rule != nullptr ? closed(location.reach, refused_status, *rule, block.line)
                                      : closed(location.reach, left_out_status, block, block.line);
  if (passes && rule != nullptr && location.reach.is_said) {
    draft_.note(block.line,
                "once another rule protects it (for keys: `auth` and `evenkeel key create`; for "
                "addresses: `match.client`), let this route lead to `pool: " +
                    passes->targets[0].pool + "`");
  }
  route.passes = passes.has_value();
  block.closed = true;
  return route;
}

void NginxLocations::add_routes(const Location& location, std::vector<PlacedRoute>& routes) {
  const SaidRules said{.clients = allowed_clients(*location.scope),
                       .rewrite = own_rewrite(*location.scope),
                       .key_checks = keys_.checks_of(*location.scope)};
  PlacedRoute route = route_of(location, said);
  const bool is_open = route.passes && !route.closes;
  const bool needs_key = !said.key_checks.empty();
  if (route.passes) limits_.read(*location.scope, is_open, needs_key);
  if (needs_key && !route.closes) route.route.auth = AuthRule::required;
  const bool refuses = is_open && !said.clients.empty();
  if (refuses) route.route.match.client = said.clients;
  routes.push_back(std::move(route));
  if (!refuses) return;
  routes.push_back({.route = answer(location.reach.match(), refused_status),
                    .line = location.scope->block.line});
}

void NginxLocations::warn_of_rest(const Location& location, const PlacedRoute& route) {
  const bool refuses = route.route.respond && route.route.respond->status >= 400;
  const bool is_path =
      location.rank == Rank::exact || location.path.ends_with('/') || location.path.ends_with('$');
  if (!refuses || !location.reach.is_said || location.reach.path.empty() || is_path) return;
  draft_.warn(route.line, "`location " + printable_utf8(location.path.substr(0, 60)) +
                              "` takes paths such as " +
                              location.reach.path.substr(0, location.reach.path.size() - 3) +
                              "x too; here they go by the other routes");
}

/// Rewritings of the server come before its locations.
void NginxLocations::add_rewrites(const NginxScope& server, std::vector<PlacedRoute>& routes) {
  for (NginxDirective& each : server.block.children) {
    if (each.name() != "rewrite") continue;
    each.used = true;
    routes.push_back(closed(reach_of_regex(each.argument()), left_out_status, each, each.line));
  }
}

std::vector<PlacedRoute> NginxLocations::routes_of(const NginxScope& server) {
  std::vector<PlacedRoute> routes;
  add_rewrites(server, routes);
  if (NginxDirective* result = server.own("return")) {
    routes.push_back(
        {.route = returned({.path = "", .is_said = true}, *result), .line = result->line});
    if (branches(server, {})) routes.back().route = answer({}, refused_status);
    mark_used(server.block);
    return routes;
  }
  scopes_.clear();
  locations_.clear();
  collect(server);
  rank_final_prefixes();
  // As nginx chooses: an exact path, else a regular expression in the order of the file, else the
  // longest prefix.
  std::ranges::sort(locations_, {}, [](const Location& each) {
    const bool is_prefix = each.rank == Rank::prefix || each.rank == Rank::final_prefix;
    const auto length = static_cast<int>(is_prefix ? each.path.size() : 0);
    return std::tuple(-static_cast<int>(each.rank), -length, each.number);
  });
  std::vector<std::pair<const Location*, std::size_t>> last;  // and the last route of each
  for (const Location& each : locations_) {
    if (routes.size() >= max_routes) break;
    add_routes(each, routes);
    last.emplace_back(&each, routes.size() - 1);
  }
  const bool passes = std::ranges::any_of(
      routes, [](const PlacedRoute& each) { return !each.route.targets.empty(); });
  for (const auto& [location, at] : last) {
    if (passes) warn_of_rest(*location, routes[at]);
  }
  const bool takes_all = std::ranges::any_of(routes, [](const PlacedRoute& each) {
    return each.route.match == RouteMatch{} && !each.closes;
  });
  if (!takes_all) {
    routes.push_back({.route = answer({}, 404), .line = server.block.line, .fills = true});
  }
  return routes;
}

}  // namespace evenkeel::import
