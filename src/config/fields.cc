#include "config/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

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
        "take a status from 200 to 299 or from 400 to 599");
  }
  const bool is_bodiless = response.status == 204 || response.status == 205;
  if (is_bodiless && !response.body.empty())
    status->fail(fmt::format("{} has no body", response.status), "remove 'body', or take 200");
}

void finish(Of<RouteConfig>, Node& node, RouteConfig& route) {
  if (route.name.empty()) route.name = name_of(route.match);
  if (!node.has("pool") && !node.has("split") && !node.has("respond")) {
    node.fail_missing(node.path(), "has no target",
                      "add 'pool: NAME', 'split: {NAME: SHARE, ...}' or 'respond: {status: 503}'");
  }
  if (!node.has("respond")) return;
  const auto refuse = [&](const char* key, bool is_given) {
    if (const auto child = node.child(key); child && is_given)
      child->fail("no pool gets the requests of a route with 'respond'",
                  fmt::format("remove '{}' or 'respond'", key));
  };
  refuse("pool", true);
  refuse("split", true);
  refuse("sticky", route.sticky != StickyConfig{});
  refuse("slo", route.slo != SloConfig{});
  refuse("priority", route.priority.has_value());
  refuse("retry", route.retry.has_value());
  refuse("model_list", route.model_list != ModelListRule::automatic);
}

namespace {

std::size_t count_of(const LimitsConfig& limits) {
  return limits.requests.size() + limits.tokens.size() + limits.input_tokens.size() +
         limits.output_tokens.size() + (limits.concurrent > 0 ? 1 : 0);
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

void finish(Of<RateLimitConfig>, Node& node, RateLimitConfig& config) {
  if (count_of(config) > 0) return;
  node.fail("limits nothing", "name requests, tokens, input_tokens, output_tokens or concurrent");
}

void finish(Of<Config>, Node& node, Config& config) {
  if (config.routes.empty()) config.routes = implied_routes(config);
  check_limits(node, config);
  for (PoolConfig& pool : config.pools) pool.inspect |= limits_need_bodies(config);
  if (!config.pools.empty() || !config.routes.empty()) return;
  if (const auto pools = node.child("pools")) {
    if (pools->is_list()) pools->fail("is empty, at least one is needed");
  } else {
    node.fail_missing("pools", "missing key 'pools'");
  }
}

// Requires pools, or routes that need none.
void extend_schema(Of<Config>, Tree& schema) {
  schema.put("anyOf", Tree::list({has("pools"), has("routes")}));
}

// Requires `pool`, a `split` or `respond`; beside `pool`, a split names labels.
void extend_schema(Of<RouteConfig>, Tree& schema) {
  Tree labels = Tree::map({{"propertyNames", Tree::map({{"pattern", Tree::text("=")}})}});
  Tree pool = has("pool");
  pool.put("properties", Tree::map({{"split", std::move(labels)}}));
  Tree split = has("split");
  split.put("not", has("pool"));
  schema.put("oneOf", Tree::list({std::move(pool), std::move(split), has("respond")}));
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
  std::string name = match.host + (match.path.empty() ? "/**" : match.path);
  for (const std::string& model : match.model) name += ' ' + model;
  for (const std::string& task : match.task) name += ' ' + task;
  return name;
}

}  // namespace evenkeel::config_file
