#include "admin/limit_use.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace evenkeel {
namespace {

/// Returns an amount in the unit that people know: of a cost, not millionths.
double shown_amount(LimitUnit unit, std::uint64_t amount) {
  return static_cast<double>(amount) / (unit == LimitUnit::cost ? 1e6 : 1);
}

/// A limit that has series, whose labels tell it from the others.
struct Row {
  Labels labels;
  Limit limit;
};

/// Adds the limits of an owner: of several that differ in their amounts alone, the smallest one.
void add_rows(std::vector<Row>& rows, const Label& owner, std::span<const Limit> limits) {
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const Limit& limit = limits[i];
    const LimitRate& rate = limit.quota.rate;
    const auto is_stricter = [&](const Limit& other) {
      const LimitRate& its = other.quota.rate;
      if (other.unit != limit.unit || its.period != rate.period) return false;
      return its.amount < rate.amount || (its.amount == rate.amount && &other < &limit);
    };
    if (std::ranges::any_of(limits, is_stricter)) continue;
    const std::string_view period =
        limit.unit == LimitUnit::concurrent ? std::string_view() : to_string(rate.period);
    rows.push_back(
        {.labels = {owner, {"unit", to_string(limit.unit)}, {"period", period}}, .limit = limit});
  }
}

struct FamilyNames {
  std::string_view limit;
  std::string_view limit_help;
  std::string_view used;
  std::string_view used_help;
};

void add_families(MetricsPage& page, const std::vector<Row>& rows, const LimitUse& use,
                  const FamilyNames& names) {
  if (rows.empty()) return;
  const QuotaTime time = QuotaTime::current();
  page.gauges(names.limit, names.limit_help);
  for (const auto& [labels, limit] : rows)
    page.add(labels, shown_amount(limit.unit, limit.quota.rate.amount));
  page.gauges(names.used, names.used_help);
  for (const auto& [labels, limit] : rows)
    page.add(labels, shown_amount(limit.unit, use.state_of(limit, time).used));
}

}  // namespace

JsonValue::List limits_document(std::span<const Limit> limits, const LimitUse* use) {
  const QuotaTime time = QuotaTime::current();
  JsonValue::List documents;
  for (const Limit& limit : limits) {
    const bool is_rate = limit.unit != LimitUnit::concurrent;
    const QuotaState state = use == nullptr ? QuotaState() : use->state_of(limit, time);
    const std::uint64_t amount = limit.quota.rate.amount;
    JsonValue document;
    document.add("limit", text_of(limit));
    document.add("unit", to_string(limit.unit));
    document.add("amount", shown_amount(limit.unit, amount));
    document.add("used", shown_amount(limit.unit, state.used));
    document.add("used_ratio", static_cast<double>(state.used) / static_cast<double>(amount));
    document.add("reset_seconds", is_rate ? JsonValue(seconds_of(state.reset)) : JsonValue());
    documents.push_back(std::move(document));
  }
  return documents;
}

void add_limit_families(MetricsPage& page, const RuntimeView& view) {
  const LimitUse* const use = view.status->pool_set->limit_use();
  if (use == nullptr) return;
  const Config& config = *view.status->config;
  const LimitTable table(config);
  std::vector<Row> of_tenants;
  for (std::size_t i = 0; i < config.tenants.size(); ++i) {
    add_rows(of_tenants, {"tenant", config.tenants[i].name},
             table.of_tenant(static_cast<std::uint32_t>(i + 1)));
  }
  add_families(page, of_tenants, *use,
               {.limit = "evenkeel_tenant_limit",
                .limit_help = "What a limit of a tenant allows in a period.",
                .used = "evenkeel_tenant_limit_used",
                .used_help = "What this process knows to be used of it."});
  std::vector<Row> of_pools;
  for (const PoolConfig& pool : config.pools) {
    if (pool.budget.empty()) continue;
    add_rows(of_pools, {"pool", pool.name}, LimitTable(config, pool).of_all());
  }
  add_families(page, of_pools, *use,
               {.limit = "evenkeel_pool_budget",
                .limit_help = "What the budget of a pool allows in a period.",
                .used = "evenkeel_pool_budget_used",
                .used_help = "What this process knows to be used of it."});
}

}  // namespace evenkeel
