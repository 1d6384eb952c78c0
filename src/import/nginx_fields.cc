#include "import/nginx_fields.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/base/ascii.h"

namespace evenkeel::import {
namespace {

constexpr std::string_view cors_fields = "access-control-";

/// The directives of that name that hold in a scope: the nearest block's that has any.
std::vector<NginxDirective*> nearest(const NginxScope& location, std::string_view name) {
  std::vector<NginxDirective*> found;
  for (const NginxScope* scope = &location; scope && found.empty(); scope = scope->outer) {
    for (NginxDirective* each : scope->settings) {
      if (each->name() == name && each->words.size() > 1) found.push_back(each);
    }
  }
  return found;
}

/// The conditions of a location that answer preflights.
std::vector<NginxDirective*> preflight_answers(const NginxScope& location) {
  std::vector<NginxDirective*> found;
  for (const NginxScope* scope = &location; scope != nullptr; scope = scope->outer) {
    for (NginxDirective* each : scope->settings) {
      if (answers_preflights(*each)) found.push_back(each);
    }
  }
  return found;
}

/// "GET, POST" without blanks; nothing if a star stands for all.
std::vector<std::string> list_of(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = trimmed(text.substr(0, comma));
    if (item == "*") return {};
    if (!item.empty()) items.emplace_back(item);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return items;
}

/// Takes one `access-control-*` field; false if `cors` cannot say it.
bool take_cors_field(std::string_view name, std::string_view value, CorsConfig& cors) {
  name.remove_prefix(cors_fields.size());
  if (name == "allow-origin") {
    cors.origins = {value == "$http_origin" ? "*" : std::string(value)};
  } else if (name == "allow-methods") {
    cors.methods = list_of(value);
  } else if (name == "allow-headers") {
    cors.headers = list_of(lower_case(value));
  } else if (name == "allow-credentials") {
    cors.credentials = value == "true";
  } else if (name == "max-age") {
    constexpr std::chrono::seconds plain{1};
    cors.max_age = parse_time(value, plain).value_or(cors.max_age);
  } else {
    return false;
  }
  return true;
}

/// Sets `cors` if these fields say all of one.
void read_cors(const NginxScope& location, std::vector<NginxDirective*> fields,
               RouteConfig& route) {
  const std::vector<NginxDirective*> conditions = preflight_answers(location);
  for (NginxDirective* condition : conditions) {
    for (NginxDirective& each : condition->children) fields.push_back(&each);
  }
  CorsConfig cors;
  std::vector<NginxDirective*> taken = conditions;
  for (NginxDirective* each : fields) {
    const std::string name = lower_case(each->argument());
    if (!name.starts_with(cors_fields) || each->words.size() < 3) continue;
    if (take_cors_field(name, each->words[2], cors)) taken.push_back(each);
  }
  if (cors.origins.empty()) return;
  RouteConfig trial = route;
  trial.cors = std::move(cors);
  if (!passes_check(trial)) return;
  route.cors = std::move(trial.cors);
  for (NginxDirective* each : taken) {
    each->used = true;
    for (NginxDirective& child : each->children) {
      // Of fields of the answer to a preflight, others have no meaning there.
      if (!lower_case(child.argument()).starts_with(cors_fields)) child.used = true;
    }
  }
}

/// What a directive changes in its route.
struct Change {
  NginxDirective* directive;
  std::function<void(RouteConfig&)> apply;
};

/// Makes those changes with which the file passes the check.
void apply_valid(const std::vector<Change>& changes, RouteConfig& route) {
  RouteConfig trial = route;
  for (const Change& each : changes) each.apply(trial);
  const bool all_pass = passes_check(trial);
  for (const Change& each : changes) {
    trial = route;
    each.apply(trial);
    if (!all_pass && !passes_check(trial)) continue;
    route = std::move(trial);
    each.directive->used = true;
  }
}

}  // namespace

bool answers_preflights(const NginxDirective& condition) {
  if (condition.name() != "if") return false;
  std::string text;
  for (const std::string& word : condition.arguments()) text += word;
  if (text != "($request_method=OPTIONS)") return false;
  return std::ranges::all_of(condition.children, [](const NginxDirective& each) {
    const bool is_empty =
        each.name() == "return" && (each.argument() == "204" || each.argument() == "200");
    return each.name() == "add_header" || is_empty;
  });
}

void read_answer_fields(const NginxScope& location, RouteConfig& route) {
  const std::vector<NginxDirective*> fields = nearest(location, "add_header");
  read_cors(location, fields, route);
  std::vector<Change> changes;
  if (NginxDirective* type = location.own("default_type"); type != nullptr && route.respond) {
    changes.push_back(
        {type, [type](RouteConfig& to) { to.respond->content_type = type->argument(); }});
  }
  for (NginxDirective* each : fields) {
    const std::string name = lower_case(each->argument());
    const bool is_text = each->words.size() > 2 && each->words[2].find('$') == std::string::npos;
    if (!is_text || name.starts_with(cors_fields)) continue;
    changes.push_back({each, [each, name](RouteConfig& to) {
                         const bool is_own_type = name == "content-type" && to.respond;
                         std::string& value =
                             is_own_type ? to.respond->content_type : to.response_headers.add[name];
                         value = each->words[2];
                       }});
  }
  for (NginxDirective* each : nearest(location, "proxy_hide_header")) {
    changes.push_back({each, [each](RouteConfig& to) {
                         to.response_headers.remove.push_back(lower_case(each->argument()));
                       }});
  }
  if (!changes.empty()) apply_valid(changes, route);
}

void read_request_fields(const NginxScope& location, RouteConfig& route) {
  std::vector<Change> changes;
  for (NginxDirective* each : nearest(location, "proxy_set_header")) {
    const bool removes = each->words.size() == 3 && each->words[2].empty();
    const std::string name = lower_case(each->argument());
    const bool is_own = name.starts_with("x-forwarded-") || name == "x-real-ip" ||
                        name == "x-request-id" || name == "connection" || name == "upgrade";
    if (!removes || is_own) continue;
    changes.push_back(
        {each, [name](RouteConfig& to) { to.request_headers.remove.push_back(name); }});
  }
  if (!changes.empty()) apply_valid(changes, route);
}

}  // namespace evenkeel::import
