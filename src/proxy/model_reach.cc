#include "proxy/model_reach.h"

#include <algorithm>
#include <optional>

#include "evenkeel/base/glob.h"
#include "evenkeel/base/host.h"
#include "evenkeel/base/regex.h"
#include "evenkeel/inference/api_paths.h"
#include "evenkeel/proxy/router.h"

namespace evenkeel {
namespace {

struct ModelPath {
  std::string_view path;
  ModelReach::Api api;
};

/// The paths to which requests to models are posted, with no prefix.
const std::vector<ModelPath>& model_paths() {
  static const std::vector<ModelPath> paths = [] {
    using Api = ModelReach::Api;
    std::vector<ModelPath> list = {{"/v2/models/m/infer", Api::kserve},
                                   {"/v2/models/m/generate", Api::kserve}};
    for (const ApiPath& each : api_paths()) {
      if (each.path.starts_with("/v1/")) list.push_back({each.path, Api::openai});
      if (each.path.starts_with("/api/")) list.push_back({each.path, Api::ollama});
      if (each.api == InferenceApi::kserve_grpc) list.push_back({each.path, Api::kserve});
    }
    return list;
  }();
  return paths;
}

bool has(const Fields& fields, std::string_view authority, std::string_view name,
         std::string_view value) {
  // `host` is not a field of the request, but rules may name it.
  if (name == "host") return normal_authority(authority, false) == normal_authority(value, false);
  return std::any_of(fields.begin(), fields.end(), [&](const Field& field) {
    return field.value() == value && equals_ignore_case(field.name(), name);
  });
}

}  // namespace

bool may_limit_models(const Config& config) {
  return config.auth && (!config.auth->keys.file.empty() ||
                         std::ranges::any_of(config.auth->jwt,
                                             [](const TokenIssuerConfig& each) {
                                               return !each.models_claim.empty();
                                             }) ||
                         std::ranges::any_of(config.tenants, [](const TenantConfig& each) {
                           return !each.models.empty();
                         }));
}

ModelReach::Paths ModelReach::paths_of(Api api) {
  Paths paths = 0;
  for (std::size_t i = 0; i < model_paths().size(); ++i) {
    if (model_paths()[i].api == api) paths |= Paths{1} << i;
  }
  return paths;
}

bool ModelReach::Pool::takes(std::string_view model) const {
  return any_model || std::ranges::any_of(models, [model](std::string_view glob) {
           return matches_glob(glob, model);
         });
}

ModelReach::ModelReach(const Config& config) : config_(config) {
  for (const PoolConfig& pool : config.pools) numbers_.emplace(pool.name, numbers_.size());
  for (const RouteConfig& route : config.routes) {
    const auto number = static_cast<std::uint32_t>(paths_.size());
    paths_.push_back(paths_of(route.match));
    if (paths_.back() != 0) hosts_[route.match.host].push_back(number);
  }
}

ModelReach::Paths ModelReach::paths_of(const RouteMatch& match) {
  const bool posts =
      match.method.empty() || std::ranges::find(match.method, "POST") != match.method.end();
  if (!posts) return 0;
  const PathPattern pattern(match.path.empty() ? "/**" : match.path);
  std::optional<Regex> regex;
  if (!match.path_regex.empty()) regex.emplace(match.path_regex);
  Paths paths = 0;
  for (std::size_t i = 0; i < model_paths().size(); ++i) {
    const std::string_view path = model_paths()[i].path;
    const bool is_call = path.starts_with("/inference.");
    const bool of_kind = match.grpc.empty() ||
                         (is_call && std::ranges::any_of(match.grpc, [&](std::string_view call) {
                            return path.substr(1).starts_with(call);
                          }));
    if (of_kind && pattern.matches(path) && (!regex || regex->matches(path)))
      paths |= Paths{1} << i;
  }
  return paths;
}

/// The routes that match this host, in order.
ModelReach::Routes ModelReach::routes_of(std::string_view authority) const {
  const std::string host = normal_host(host_of(authority));
  Routes routes;
  const auto add = [&](std::string_view pattern) {
    const auto found = hosts_.find(pattern);
    if (found == hosts_.end()) return;
    routes.insert(routes.end(), found->second.begin(), found->second.end());
  };
  add("");
  if (!host.empty()) add(host);
  for (auto dot = host.find('.', 1); dot != std::string::npos; dot = host.find('.', dot + 1)) {
    add("*" + host.substr(dot));
  }
  std::ranges::sort(routes);
  return routes;
}

ModelReach::Pools ModelReach::pools_for(Api api, std::string_view authority,
                                        const Fields* fields) const {
  Pools pools;
  std::map<std::size_t, Pool> found;
  Paths left = paths_of(api);  // not taken for good
  for (const std::uint32_t number : routes_of(authority)) {
    if ((paths_[number] & left) == 0) continue;
    const RouteMatch& match = config_.routes[number].match;
    const bool matches =
        fields == nullptr || std::ranges::all_of(match.header, [&](const auto& wanted) {
          return has(*fields, authority, wanted.first, wanted.second);
        });
    if (!matches) continue;
    add_pools(config_.routes[number], found);
    pools.by_body |= match.looks_into_body();
    // Other conditions may hold for another request of the same client.
    const bool has_others = !match.query.empty() || !match.client.empty() ||
                            !match.listener.empty() || !match.none_of.empty();
    const bool always =
        !match.looks_into_body() && !has_others && (fields != nullptr || match.header.empty());
    if (always) left &= ~paths_[number];
    if (left == 0) break;
  }
  for (auto& [number, pool] : found) pools.list.push_back(std::move(pool));
  return pools;
}

void ModelReach::add_pools(const RouteConfig& route, std::map<std::size_t, Pool>& pools) const {
  for (const RouteTarget& target : route.targets) {
    const auto number = numbers_.find(target.pool);
    if (target.weight == 0 || number == numbers_.end()) continue;
    Pool& pool = pools[number->second];
    pool.number = number->second;
    pool.any_model |= route.match.model.empty();
    pool.models.insert(pool.models.end(), route.match.model.begin(), route.match.model.end());
  }
}

bool ModelReach::merges(const Pools& pools) const {
  return pools.by_body || pools.list.size() > 1 ||
         std::ranges::any_of(pools.list, [this](const Pool& each) {
           const PoolConfig& pool = config_.pools[each.number];
           return renames(pool) && !pool.models.empty();
         });
}

std::set<std::string> ModelReach::pools_to_list() const {
  std::set<std::string> names;
  const bool always = may_limit_models(config_) ||
                      std::ranges::any_of(config_.routes, [](const RouteConfig& route) {
                        return route.model_list == ModelListRule::merged;
                      });
  add_to_list("", always, names);
  for (const auto& [host, routes] : hosts_) {
    if (host.empty()) continue;
    add_to_list(host.starts_with("*.") ? "any" + host.substr(1) : host, always, names);
  }
  return names;
}

/// Adds the names of the pools to list, and of those that they fall back to.
void ModelReach::add_to_list(std::string_view authority, bool always,
                             std::set<std::string>& names) const {
  const Pools openai = pools_for(Api::openai, authority, nullptr);
  const Pools kserve = pools_for(Api::kserve, authority, nullptr);
  std::vector<Pool> listed;
  if (always || merges(openai)) listed = openai.list;
  if (kserve.by_body) listed.insert(listed.end(), kserve.list.begin(), kserve.list.end());
  for (const Pool& each : listed) {
    std::size_t number = each.number;
    while (names.insert(config_.pools[number].name).second) {
      const auto fallback = numbers_.find(config_.pools[number].fallback.pool);
      if (fallback == numbers_.end()) break;
      number = fallback->second;
    }
  }
}

}  // namespace evenkeel
