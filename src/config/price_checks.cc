#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "config/validation.h"
#include "evenkeel/base/glob.h"

// What depends on prices, and whether any price applies.
namespace evenkeel::config_file {
namespace {

// True if requests to the pool may have a price: its names of models are not all known, or one of
// them has one.
bool may_have_price(const PoolConfig& pool, const std::vector<ModelPrice>& prices) {
  if (pool.models.empty()) return true;
  const auto has_price = [&](std::string_view name) {
    return std::ranges::any_of(
        prices, [&](const ModelPrice& price) { return matches_glob(price.model, name); });
  };
  const auto is_renamed_to_one = [&](const auto& names) { return has_price(names.second); };
  return has_price(pool.model) || std::ranges::any_of(pool.models, has_price) ||
         std::ranges::any_of(pool.model_names, is_renamed_to_one);
}

// The keys that limit money.
std::vector<std::string> limits_of_cost(const Config& config) {
  std::vector<std::string> keys;
  for (const auto& [path, tenant] : items_of("tenants", config.tenants)) {
    if (!tenant.limits.cost.empty()) keys.push_back(path + ".limits.cost");
  }
  for (const auto& [path, limit] : items_of("rate_limits", config.rate_limits)) {
    if (!limit.cost.empty()) keys.push_back(path + ".cost");
  }
  return keys;
}

}  // namespace

void check_prices(const Config& config, ParseContext& context) {
  const std::vector<ModelPrice>& prices = config.usage.prices;
  if (context.report.has_problem("usage")) return;
  const auto warn = [&](const std::string& key, std::string_view of_what) {
    if (prices.empty()) {
      context.warn(key, "has no effect: no model has a price", "add `usage.prices`");
    } else {
      context.warn(key, fmt::format("has no effect: no price is that of a model of {}", of_what),
                   "name the models in `usage.prices` as clients or backends do, or as globs");
    }
  };
  const std::vector<std::string> limits = limits_of_cost(config);
  bool has_budget = false;
  bool any_has_price = false;
  for (const auto& [path, pool] : items_of("pools", config.pools)) {
    const bool has_price = !prices.empty() && may_have_price(pool, prices);
    any_has_price |= has_price;
    if (pool.budget.cost.empty()) continue;
    has_budget = true;
    if (!has_price) warn(path + ".budget.cost", "the pool");
  }
  for (const std::string& key : limits) {
    if (!any_has_price) warn(key, "the pools");
  }
  if (!prices.empty() && config.usage.path.empty() && limits.empty() && !has_budget) {
    context.warn("usage.prices", "has no effect: neither records nor limits count costs",
                 "name the file of the records in `usage.path`, or remove the prices");
  }
}

}  // namespace evenkeel::config_file
