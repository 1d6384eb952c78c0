#include "config/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/base/regex.h"
#include "evenkeel/config/split_target.h"

namespace evenkeel::config_file {

namespace {

Tree has(const char* key) { return Tree::map({{"required", Tree::list_of_text({key})}}); }

}  // namespace

void finish(Of<RespondConfig>, Node& node, RespondConfig& response) {
  const auto status = node.child("status");
  if (!status) return;
  if (response.status / 100 == 3) {
    status->fail(
        fmt::format("{} sends clients elsewhere, and 'respond' cannot say where", response.status),
        fmt::format("write redirect: {{to: URL, status: {}}}", response.status));
  }
  const bool is_bodiless = response.status == 204 || response.status == 205;
  if (is_bodiless && !response.body.empty())
    status->fail(fmt::format("{} has no body", response.status), "remove 'body', or take 200");
}

void finish(Of<RedirectConfig>, Node& node, RedirectConfig& redirect) {
  const auto status = node.child("status");
  if (status && redirect.status > 303 && redirect.status < 307)
    status->fail(fmt::format("{} does not redirect", redirect.status),
                 "take 301, 302, 303, 307 or 308");
}

void finish(Of<RewriteConfig>, Node& node, RewriteConfig& rewrite) {
  const bool has_regex = node.has("regex");
  const int ways = int{node.has("strip_prefix")} + int{node.has("prefix")} + int{has_regex};
  if (ways != 1) {
    return node.fail(ways == 0 ? "says nothing of the new path" : "says the new path twice",
                     "write one of strip_prefix, prefix and regex");
  }
  if (has_regex != node.has("to")) {
    return node.fail("'regex' and 'to' are written together",
                     has_regex ? "add 'to'" : "remove 'to', or add 'regex'");
  }
  if (rewrite.regex.empty()) return;
  const Regex regex(rewrite.regex);
  if (!regex.problem().empty()) return;  // reported
  if (regex.problem_of_replacement(rewrite.to).empty()) return;
  node.child("to")->fail("names a group that 'regex' does not have, or has another backslash",
                         "write \\1 for the first group, and \\\\ for a backslash");
}

void finish(Of<CorsConfig>, Node& node, CorsConfig& cors) {
  if (!cors.credentials || std::ranges::find(cors.origins, "*") == cors.origins.end()) return;
  node.child("credentials")
      ->fail("pages of any origin could act with the cookies of their visitors",
             "name the origins, or remove 'credentials'");
}

void finish(Of<CanaryConfig>, Node& node, CanaryConfig& canary) {
  if (const auto labels = labels_of(canary.target)) canary.target = selector_of(*labels);
  if (!node.has("error_rate") && !node.has("ttft")) {
    node.fail("has no bounds, so that it would never go back",
              "add 'error_rate: 5%' or 'ttft: 2s', or both");
  }
}

namespace {

// Refuses a canary without anything that could take its place.
void check_canary(Node& node, const RouteConfig& route) {
  const auto canary = node.child("canary");
  if (!canary || !route.canary || route.canary->target.empty()) return;
  std::vector<std::string> names;
  bool is_there = false;
  std::uint32_t others = 0;
  for (const RouteTarget& target : route.targets) {
    const std::string& name = names.emplace_back(name_of(target));
    if (name == route.canary->target) {
      is_there = true;
    } else {
      others += target.weight;
    }
  }
  if (!node.has("split")) {
    canary->fail("is a target of 'split', which is not there", "add 'split', or remove 'canary'");
  } else if (!is_there) {
    canary->fail(fmt::format("'split' has no target '{}'", route.canary->target),
                 fmt::format("its targets are {}", fmt::join(names, ", ")));
  } else if (others == 0) {
    canary->fail("no other target has a share, so that none could get its requests",
                 "give another target of 'split' a share");
  }
}

constexpr std::array<const char*, 4> ends = {"pool", "split", "respond", "redirect"};

// True if the path ends in what stands for any rest.
bool is_open_ended(const std::string& path) { return path.empty() || path.ends_with("/**"); }

// Refuses what is about requests to pools.
void check_own_answer(Node& node, const RouteConfig& route, const char* answer) {
  const auto refuse = [&](const char* key, bool is_given) {
    if (key == std::string_view(answer)) return;
    if (const auto child = node.child(key); child && is_given)
      child->fail(fmt::format("no pool gets the requests of a route with '{}'", answer),
                  fmt::format("remove '{}' or '{}'", key, answer));
  };
  for (const char* const end : ends) refuse(end, true);
  refuse("sticky", route.sticky != StickyConfig{});
  refuse("canary", route.canary.has_value());
  refuse("mirror", !route.mirror.pool.empty());
  refuse("timeouts", route.timeouts != RouteTimeouts{});
  refuse("slo", route.slo != SloConfig{});
  refuse("priority", route.priority.has_value());
  refuse("retry", route.retry.has_value());
  refuse("model_list", route.model_list != ModelListRule::automatic);
  refuse("rewrite", route.rewrite.has_value());
  refuse("request_headers", !route.request_headers.empty());
}

}  // namespace

void finish(Of<RouteConfig>, Node& node, RouteConfig& route) {
  if (route.name.empty()) route.name = name_of(route.match);
  if (std::ranges::none_of(ends, [&](const char* end) { return node.has(end); })) {
    node.fail_missing(node.path(), "has no target",
                      "add 'pool: NAME', 'split: {NAME: SHARE, ...}', 'respond: {status: 503}' or "
                      "'redirect: {to: URL}'");
  }
  if (node.has("respond")) {
    check_own_answer(node, route, "respond");
  } else if (node.has("redirect")) {
    check_own_answer(node, route, "redirect");
  }
  check_canary(node, route);
  if (is_open_ended(route.match.path)) return;
  if (route.redirect && route.redirect->to.ends_with("/**"))
    node.child("redirect")
        ->fail("its '/**' stands for that of 'match.path', which has none",
               "end match.path in '/**', or remove it here");
  if (route.rewrite && !route.rewrite->prefix.empty())
    node.child("rewrite")->fail(
        "'prefix' replaces what 'match.path' has before its '/**', and it has none",
        "end match.path in '/**', or take 'regex'");
}

namespace {

std::size_t count_of(const LimitsConfig& limits) {
  return limits.requests.size() + limits.tokens.size() + limits.input_tokens.size() +
         limits.output_tokens.size() + limits.cost.size() + (limits.concurrent > 0 ? 1 : 0);
}

// True if what a request asks of a model decides what it takes of a limit, or of which.
bool limits_need_bodies(const Config& config) {
  const auto by_model = [](const RateLimitConfig& limit) {
    return !limit.models.empty() || std::ranges::find(limit.by, "model") != limit.by.end();
  };
  return std::ranges::any_of(config.tenants, &LimitsConfig::count_tokens, &TenantConfig::limits) ||
         std::ranges::any_of(config.rate_limits, &LimitsConfig::count_tokens) ||
         std::ranges::any_of(config.rate_limits, by_model);
}

// True if something but a pool changes bodies.
bool changes_bodies(const Config& config) {
  return std::ranges::any_of(config.tenants, &TenantConfig::changes_bodies) ||
         std::ranges::any_of(config.routes,
                             [](const RouteConfig& each) { return !each.body.empty(); });
}

void check_limits(Node& node, const Config& config) {
  std::size_t of_all = 0;
  for (const RateLimitConfig& each : config.rate_limits) of_all += count_of(each);
  std::size_t of_tenant = 0;
  for (const TenantConfig& each : config.tenants)
    of_tenant = std::max(of_tenant, count_of(each.limits));
  if (of_all + of_tenant <= max_limits_of_request) return;
  node.fail(fmt::format("a request may have {} limits: of a tenant, and in 'rate_limits'",
                        of_all + of_tenant),
            fmt::format("let there be at most {}", max_limits_of_request));
}

}  // namespace

void check_hosted(const Node& node, const PoolConfig& pool) {
  if (pool.engine != "generic") {
    node.fail("is hosted, so that its engine is no concern of evenkeel's",
              "remove `engine`, or `hosted`");
  }
  if (pool.discover) {
    node.fail("is hosted, and backends that are found have no keys",
              "write them in `backends`, each with its `api_key_file`");
  }
  for (const BackendConfig& backend : pool.backends) {
    if (backend.api_key_file.empty()) {
      node.fail("is hosted, and clients' own credentials do not reach its backends",
                "give each backend an `api_key_file`");
      return;
    }
    if (!pool.tls && !backend.address.secure) {
      node.fail("is hosted, and its keys would go there in plaintext",
                "write https:// in the addresses of its backends");
      return;
    }
  }
}

void finish(Of<RateLimitConfig>, Node& node, RateLimitConfig& config) {
  if (count_of(config) > 0) return;
  node.fail("limits nothing",
            "name requests, tokens, input_tokens, output_tokens, cost or concurrent");
}

namespace {

// Refuses shared answers whose keys any client could make.
void check_shared_answers(Node& node, const Config& config) {
  const bool shares = std::ranges::any_of(
      config.pools, [](const PoolConfig& pool) { return pool.cache && pool.cache->shared; });
  if (!shares || (config.shared_state && !config.shared_state->password_file.empty())) return;
  node.fail_missing("shared_state",
                    "'cache.shared' needs a server that replicas share, with a password",
                    "add shared_state: {redis: URL, password_file: FILE}");
}

}  // namespace

void finish(Of<Config>, Node& node, Config& config) {
  check_shared_answers(node, config);
  if (config.routes.empty()) config.routes = implied_routes(config);
  check_limits(node, config);
  const bool is_metered =
      config.usage.is_on() || limits_need_bodies(config) || changes_bodies(config);
  for (PoolConfig& pool : config.pools) pool.metered = is_metered || !pool.budget.empty();
  if (!config.pools.empty() || !config.routes.empty()) return;
  if (const auto pools = node.child("pools")) {
    if (pools->is_list()) pools->fail("is empty, at least one is needed");
  } else {
    node.fail_missing("pools", "missing key 'pools'");
  }
}

void finish(Of<KubernetesDiscoverConfig>, Node& node, KubernetesDiscoverConfig& kubernetes) {
  if (kubernetes.service.empty() == kubernetes.inference_pool.empty()) {
    node.fail(kubernetes.service.empty() ? "names nothing" : "names a Service and an InferencePool",
              "give `service` or `inference_pool`");
  }
  if (!kubernetes.inference_pool.empty() && !kubernetes.port.empty())
    node.fail("'port' is of a Service", "an InferencePool has its `targetPorts`: remove it");
}

void finish(Of<DiscoverConfig>, Node& node, DiscoverConfig& discover) {
  const int sources = int{discover.kubernetes.has_value()} + int{!discover.srv.empty()} +
                      int{!discover.http_sd.empty()} + int{!discover.file.empty()};
  if (sources != 1) {
    node.fail(sources == 0 ? "names no source" : "names several sources",
              "give one of `kubernetes`, `srv`, `http_sd` and `file`");
  }
}

void finish(Of<ScalingConfig>, Node& node, ScalingConfig& scaling) {
  if (scaling.min > scaling.max) node.fail("'min' is above 'max'", "swap them");
}

// Requires `backends` or `discover`.
void extend_schema(Of<PoolConfig>, Tree& schema) {
  schema.put("anyOf", Tree::list({has("backends"), has("discover")}));
}

// Requires pools, or routes that need none.
void extend_schema(Of<Config>, Tree& schema) {
  schema.put("anyOf", Tree::list({has("pools"), has("routes")}));
}

// Requires `pool`, a `split`, `respond` or `redirect`; beside `pool`, a split names labels.
void extend_schema(Of<RouteConfig>, Tree& schema) {
  Tree labels = Tree::map({{"propertyNames", Tree::map({{"pattern", Tree::text("=")}})}});
  Tree pool = has("pool");
  pool.put("properties", Tree::map({{"split", std::move(labels)}}));
  Tree split = has("split");
  split.put("not", has("pool"));
  schema.put("oneOf",
             Tree::list({std::move(pool), std::move(split), has("respond"), has("redirect")}));
}

std::string name_of(const RouteMatch& match) {
  if (match.path.empty() && !match.grpc.empty()) {
    std::string name = match.host;
    for (const std::string& call : match.grpc) {
      if (name.size() > match.host.size()) name += ',';
      name += '/' + call;
      if (call.find('/') == call.npos) name += "/*";
    }
    return name;
  }
  const std::string& path = match.path.empty() ? match.path_regex : match.path;
  std::string name = match.host + (path.empty() ? "/**" : path);
  for (const std::string& model : match.model) name += ' ' + model;
  for (const std::string& task : match.task) name += ' ' + task;
  return name;
}

}  // namespace evenkeel::config_file
