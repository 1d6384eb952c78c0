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
#include "evenkeel/inference/engine.h"

// What keys say of models, compared across pools and routes.
namespace evenkeel::config_file {
namespace {

// The `models` of a pool.
class ConfiguredModels {
 public:
  explicit ConfiguredModels(const PoolConfig& pool) : models_(pool.models) {
    for (const std::string& each : models_) names_.insert(without_implied_tag(each));
  }

  const std::vector<std::string>& models() const { return models_; }
  // True if the pool's models leave room for this name, or for one that the glob matches.
  bool may_have(std::string_view model) const {
    if (models_.empty()) return true;
    if (model.find('*') == model.npos) return names_.contains(without_implied_tag(model));
    return std::ranges::any_of(models_,
                               [&](const auto& each) { return matches_glob(model, each); });
  }

 private:
  const std::vector<std::string>& models_;
  std::unordered_set<std::string_view> names_;
};

using PoolsByName = std::unordered_map<std::string_view, ConfiguredModels>;

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

// Comparing a name with thousands of others takes a while.
constexpr int max_suggestions = 25;

// `suggestions`: how many names have been compared with those of a pool.
void warn_of_missing(const RouteConfig& route, const std::string& path, const PoolsByName& pools,
                     int& suggestions, ParseContext& context) {
  for (std::size_t i = 0; i < route.match.model.size(); ++i) {
    const std::string& model = route.match.model[i];
    for (const RouteTarget& target : route.targets) {
      const auto pool = pools.find(target.pool);
      if (target.weight == 0 || pool == pools.end() || pool->second.may_have(model)) continue;
      const std::vector<std::string>& models = pool->second.models();
      const bool suggests = is_name(model) && suggestions++ < max_suggestions;
      const auto meant = suggests ? nearest_word(model, models) : std::nullopt;
      context.warn(path_of_item(context, path + ".match.model", i),
                   fmt::format("'{}' is none of the `models` of the pool '{}'", model, target.pool),
                   meant ? fmt::format("did you mean '{}'?", *meant)
                         : fmt::format("the pool has {}: add it there, or route it to another pool",
                                       list_of({models.begin(), models.end()})));
      break;
    }
  }
}

// ---- names that an earlier route takes

// A route whose names are all taken is not reached at all, which is reported elsewhere.
void warn_of_taken(const Config& config, ParseContext& context) {
  CoverIndex earlier;
  for (std::size_t i = 0; i < config.routes.size(); ++i) {
    const RouteMatch& match = config.routes[i].match;
    const std::string key = indexed("routes", i) + ".match.model";
    RouteMatch of_one_model = match;
    for (std::size_t j = 0; j < match.model.size(); ++j) {
      of_one_model.model = {match.model[j]};
      const auto first = earlier.first_cover(of_one_model);
      if (!first || covers(config.routes[*first].match, match)) continue;
      const std::string path = indexed("routes", *first);
      context.warn(path_of_item(context, key, j),
                   fmt::format("'{}' is taken by {} in line {}, which comes first", match.model[j],
                               path, context.mark_of(path).line),
                   "the first match wins: put the narrower route first, or remove the name here");
    }
    if (!match.model.empty()) earlier.add(i, match);
  }
}

// ---- fallbacks that do not have the model

// The names by which clients ask for models of each pool, as far as the file says.
class ClientNames {
 public:
  explicit ClientNames(const Config& config) {
    for (const PoolConfig& pool : config.pools) {
      for (const std::string& model : pool.models) add(pool.name, model);
    }
    for (const RouteConfig& route : config.routes) {
      for (const RouteTarget& target : route.targets) {
        for (const std::string& model : route.match.model) {
          if (is_name(model)) add(target.pool, model);
        }
      }
    }
  }

  const std::vector<std::string_view>& of(std::string_view pool) { return pools_[pool].names; }

 private:
  struct Names {
    std::vector<std::string_view> names;
    std::unordered_set<std::string_view> known;
  };
  void add(std::string_view pool, std::string_view model) {
    Names& names = pools_[pool];
    if (names.known.insert(model).second) names.names.push_back(model);
  }

  std::unordered_map<std::string_view, Names> pools_;
};

void warn_of_fallbacks(const Config& config, const PoolsByName& pools, ParseContext& context) {
  ClientNames names(config);
  for (const auto& [path, pool] : items_of("pools", config.pools)) {
    const auto fallback = pools.find(pool.fallback.pool);
    if (fallback == pools.end()) continue;
    std::vector<std::string_view> missing;
    for (const std::string_view model : names.of(pool.name)) {
      if (!fallback->second.may_have(model)) missing.push_back(model);
    }
    if (missing.empty()) continue;
    context.warn(path + ".fallback",
                 fmt::format("the pool '{}' does not have {}, whose requests it does not get",
                             pool.fallback.pool, list_of(missing)),
                 "add the name to its `model_names`, with what its backends call it, or "
                 "take another pool");
  }
}

}  // namespace

void check_models(const Config& config, ParseContext& context) {
  PoolsByName pools;
  for (const auto& [path, pool] : items_of("pools", config.pools)) {
    pools.emplace(pool.name, pool);
    warn_of_doubles(pool.models, path + ".models", context);
  }
  int suggestions = 0;
  for (const auto& [path, route] : items_of("routes", config.routes)) {
    warn_of_doubles(route.match.model, path + ".match.model", context);
    warn_of_missing(route, path, pools, suggestions, context);
  }
  warn_of_taken(config, context);
  warn_of_fallbacks(config, pools, context);
}

}  // namespace evenkeel::config_file
