#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "config/reachability.h"
#include "config/validation.h"
#include "evenkeel/base/glob.h"
#include "evenkeel/config/spelling.h"

// What keys say of models, compared across pools and routes.
namespace evenkeel::config_file {
namespace {

using PoolsByName = std::unordered_map<std::string_view, const PoolConfig*>;

bool is_name(std::string_view model) { return model.find('*') == model.npos; }

// The place of one value of a key that may have one value or a list.
std::string path_of_item(const ParseContext& context, const std::string& key, std::size_t index) {
  const std::string item = indexed(key, index);
  return context.marks.contains(item) ? item : key;
}

// "'a', 'b' and 7 more"
std::string list_of(const std::vector<std::string_view>& models) {
  constexpr std::size_t max_listed = 5;
  const std::size_t listed = std::min(models.size(), max_listed);
  std::string text;
  for (std::size_t i = 0; i < listed; ++i) {
    if (i > 0) text += i + 1 == models.size() ? " and " : ", ";
    text += fmt::format("'{}'", models[i]);
  }
  if (listed < models.size()) text += fmt::format(" and {} more", models.size() - listed);
  return text;
}

// ---- doubles

void warn_of_doubles(const std::vector<std::string>& models, const std::string& key,
                     ParseContext& context) {
  std::unordered_set<std::string_view> seen;
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (seen.insert(models[i]).second) continue;
    context.warn(path_of_item(context, key, i), fmt::format("'{}' is listed twice", models[i]),
                 "remove one of the two");
  }
}

// ---- routes to pools that do not have the model

// Ollama serves `name:latest` as `name`.
bool same_model(std::string_view a, std::string_view b) {
  constexpr std::string_view implied = ":latest";
  if (a.ends_with(implied)) a.remove_suffix(implied.size());
  if (b.ends_with(implied)) b.remove_suffix(implied.size());
  return a == b;
}

// Whether the pool's `models` leave room for this name, or for one that the glob matches.
bool may_have(const PoolConfig& pool, std::string_view model) {
  return pool.models.empty() || std::ranges::any_of(pool.models, [&](const std::string& each) {
           return is_name(model) ? same_model(each, model) : matches_glob(model, each);
         });
}

void warn_of_missing(const RouteConfig& route, const std::string& path, const PoolsByName& pools,
                     ParseContext& context) {
  for (std::size_t i = 0; i < route.match.model.size(); ++i) {
    const std::string& model = route.match.model[i];
    for (const RouteTarget& target : route.targets) {
      const auto pool = pools.find(target.pool);
      if (target.weight == 0 || pool == pools.end() || may_have(*pool->second, model)) continue;
      const auto meant = is_name(model) ? nearest_word(model, pool->second->models) : std::nullopt;
      context.warn(
          path_of_item(context, path + ".match.model", i),
          fmt::format("'{}' is none of the `models` of the pool '{}'", model, target.pool),
          meant ? fmt::format("did you mean '{}'?", *meant)
                : fmt::format("the pool has {}: add it there, or route it to another pool",
                              list_of({pool->second->models.begin(), pool->second->models.end()})));
      break;
    }
  }
}

// ---- names that an earlier route takes

RouteMatch without_models(RouteMatch match) {
  match.model.clear();
  return match;
}

struct EarlierRoutes {
  std::unordered_map<std::string_view, std::vector<std::size_t>> by_name;
  std::vector<std::size_t> with_globs;
};

// A route whose names are all taken is not reached at all, which is reported elsewhere.
void warn_of_taken(const Config& config, ParseContext& context) {
  EarlierRoutes earlier;
  for (std::size_t i = 0; i < config.routes.size(); ++i) {
    const RouteMatch& match = config.routes[i].match;
    if (match.model.empty()) continue;
    const RouteMatch rest = without_models(match);
    const std::string key = indexed("routes", i) + ".match.model";
    const auto takes = [&](std::size_t other, std::string_view model) {
      const RouteMatch& first = config.routes[other].match;
      return std::ranges::any_of(first.model,
                                 [&](const auto& glob) { return matches_glob(glob, model); }) &&
             !covers(first, match) && covers(without_models(first), rest);
    };
    for (std::size_t j = 0; j < match.model.size(); ++j) {
      std::vector<std::size_t> candidates = earlier.with_globs;
      if (const auto same = earlier.by_name.find(match.model[j]); same != earlier.by_name.end()) {
        candidates.insert(candidates.end(), same->second.begin(), same->second.end());
      }
      std::ranges::sort(candidates);
      const auto first = std::ranges::find_if(
          candidates, [&](std::size_t other) { return takes(other, match.model[j]); });
      if (first == candidates.end()) continue;
      const std::string path = indexed("routes", *first);
      context.warn(path_of_item(context, key, j),
                   fmt::format("'{}' is taken by {} in line {}, which comes first", match.model[j],
                               path, context.mark_of(path).line),
                   "the first match wins: put the narrower route first, or remove the name here");
    }
    bool has_glob = false;
    for (const std::string& model : match.model) {
      if (is_name(model)) {
        earlier.by_name[model].push_back(i);
      } else {
        has_glob = true;
      }
    }
    if (has_glob) earlier.with_globs.push_back(i);
  }
}

// ---- fallbacks that do not have the model

// The names by which clients ask for models of each pool, as far as the file says.
std::unordered_map<std::string_view, std::vector<std::string_view>> names_by_pool(
    const Config& config) {
  std::unordered_map<std::string_view, std::vector<std::string_view>> names;
  for (const PoolConfig& pool : config.pools) {
    names[pool.name].assign(pool.models.begin(), pool.models.end());
  }
  for (const RouteConfig& route : config.routes) {
    for (const RouteTarget& target : route.targets) {
      std::vector<std::string_view>& known = names[target.pool];
      for (const std::string& model : route.match.model) {
        if (is_name(model) && std::ranges::find(known, model) == known.end())
          known.push_back(model);
      }
    }
  }
  return names;
}

void warn_of_fallbacks(const Config& config, const PoolsByName& pools, ParseContext& context) {
  const auto names = names_by_pool(config);
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    const PoolConfig& pool = config.pools[i];
    const auto fallback = pools.find(pool.fallback);
    if (fallback == pools.end()) continue;
    std::vector<std::string_view> missing;
    for (const std::string_view model : names.at(pool.name)) {
      if (!may_have(*fallback->second, model)) missing.push_back(model);
    }
    if (missing.empty()) continue;
    context.warn(indexed("pools", i) + ".fallback",
                 fmt::format("the pool '{}' does not have {}, whose requests it does not get",
                             pool.fallback, list_of(missing)),
                 "add the name to its `models`, with `model` for what its backends call it, or "
                 "take another pool");
  }
}

}  // namespace

void check_models(const Config& config, ParseContext& context) {
  PoolsByName pools;
  for (std::size_t i = 0; i < config.pools.size(); ++i) {
    pools.emplace(config.pools[i].name, &config.pools[i]);
    warn_of_doubles(config.pools[i].models, indexed("pools", i) + ".models", context);
  }
  for (std::size_t i = 0; i < config.routes.size(); ++i) {
    const std::string path = indexed("routes", i);
    warn_of_doubles(config.routes[i].match.model, path + ".match.model", context);
    warn_of_missing(config.routes[i], path, pools, context);
  }
  warn_of_taken(config, context);
  warn_of_fallbacks(config, pools, context);
}

}  // namespace evenkeel::config_file
