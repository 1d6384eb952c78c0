#include "import/nginx_locations.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/utf8.h"
#include "import/redirects.h"

namespace evenkeel::import {
namespace {

/// True if alternatives stand outside of parentheses.
bool has_alternatives(std::string_view regex) {
  int depth = 0;
  for (std::size_t at = 0; at < regex.size(); ++at) {
    if (regex[at] == '\\')
      ++at;
    else if (regex[at] == '(')
      ++depth;
    else if (regex[at] == ')')
      --depth;
    else if (regex[at] == '|' && depth <= 0)
      return true;
  }
  return false;
}

NginxReach reach_of(std::string_view path, bool below) {
  const auto pattern = path_pattern(path, below);
  if (!pattern) return {};
  return {*pattern == "/**" ? "" : *pattern, true};
}

/// True for an `if` that refuses nothing and leads nowhere else.
bool is_harmless(const NginxDirective& condition) {
  static const std::set<std::string, std::less<>> harmless = {"set", "add_header", "access_log",
                                                              "expires", "limit_rate"};
  return std::ranges::all_of(condition.children, [](const NginxDirective& each) {
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

/// The rule that requests of a location must meet and routes cannot say; null if there is none.
NginxDirective* rule_of(const NginxScope& location) {
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
      if (is_address && !nearer_addresses && each.name() == "deny") return &each;
      has_addresses = has_addresses || is_address;
      if (each.name().starts_with("auth_")) here.insert(each.name());
      if (nearer.contains(each.name())) continue;
      if (is_rule(each, of_server, of_location)) return &each;
    }
    nearer_addresses = nearer_addresses || has_addresses;
    nearer.merge(here);
  }
  return nullptr;
}

/// True if an `if` may refuse requests or lead them elsewhere.
bool branches(const NginxScope& location) {
  for (const NginxScope* scope = &location; scope != nullptr; scope = scope->outer) {
    const bool here = std::ranges::any_of(scope->settings, [](const NginxDirective* each) {
      return each->name() == "if" && !is_harmless(*each);
    });
    if (here) return true;
  }
  return false;
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

NginxReach reach_of_regex(std::string_view regex) {
  if (!regex.starts_with("^/") || has_alternatives(regex)) return {};
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
  if (regex.empty() || regex == ".*" || regex == ".*$") return reach_of(literal, true);
  if (regex == "$") return reach_of(literal, false);
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
      if (how == "~") location.reach = reach_of_regex(path);
    } else {
      location.reach = reach_of(path, true);
    }
    // What takes more than it should comes before what it may be taken from.
    if (!location.reach.is_said) location.rank = Rank::regex;
    locations_.push_back(location);
    collect(*location.scope);
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
  return {.route = answer({.path = reach.path}, status), .line = line, .closes = true};
}

RouteConfig NginxLocations::returned(const NginxReach& reach, NginxDirective& directive) {
  directive.used = true;
  const auto status = parse_count(directive.argument());
  RouteConfig route = answer({.path = reach.path}, left_out_status);
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

PlacedRoute NginxLocations::route_of(const Location& location) {
  NginxDirective& block = location.scope->block;
  block.used = true;
  NginxDirective* rule = rule_of(*location.scope);
  NginxDirective* result = location.scope->own("return");
  if (result != nullptr && location.reach.is_said && !branches(*location.scope)) {
    mark_used(block);
    return {.route = returned(location.reach, *result), .line = block.line};
  }
  NginxDirective* pass = location.scope->own("proxy_pass");
  if (pass == nullptr) pass = location.scope->own("grpc_pass");
  std::optional<std::string> pool;
  if (pass != nullptr) pool = pools_.pool_of(*pass, *location.scope, location.path);
  if (pool && rule == nullptr && location.reach.is_said) {
    RouteConfig route{.match = {.path = location.reach.path}, .targets = {{.pool = *pool}}};
    return {.route = std::move(route), .line = block.line, .passes = true};
  }
  if (rule != nullptr) mark_used(*rule);
  PlacedRoute route = rule != nullptr ? closed(location.reach, refused_status, *rule, block.line)
                                      : closed(location.reach, left_out_status, block, block.line);
  if (pool && rule != nullptr && location.reach.is_said) {
    draft_.note(block.line,
                "once another rule protects it, let this route lead to `pool: " + *pool + "`");
  }
  route.passes = pool.has_value();
  return route;
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
    if (branches(server)) routes.back().route = answer({}, refused_status);
    mark_used(server.block);
    return routes;
  }
  scopes_.clear();
  locations_.clear();
  collect(server);
  // As nginx chooses: an exact path, else a regular expression in the order of the file, else the
  // longest prefix.
  std::ranges::sort(locations_, {}, [](const Location& each) {
    const auto length = static_cast<int>(each.rank == Rank::prefix ? each.path.size() : 0);
    return std::tuple(-static_cast<int>(each.rank), -length, each.number);
  });
  const std::size_t first = routes.size();
  for (const Location& each : locations_) {
    if (routes.size() < max_routes) routes.push_back(route_of(each));
  }
  const bool passes = std::ranges::any_of(
      routes, [](const PlacedRoute& each) { return !each.route.targets.empty(); });
  for (std::size_t at = first; passes && at < routes.size(); ++at) {
    warn_of_rest(locations_[at - first], routes[at]);
  }
  const bool takes_all = std::ranges::any_of(routes, [](const PlacedRoute& each) {
    return each.route.match.path.empty() && !each.closes;
  });
  if (!takes_all) {
    routes.push_back({.route = answer({}, 404), .line = server.block.line, .fills = true});
  }
  return routes;
}

}  // namespace evenkeel::import
