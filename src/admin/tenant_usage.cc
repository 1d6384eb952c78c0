#include "admin/tenant_usage.h"

#include <cstdint>
#include <span>
#include <utility>

#include "admin/limit_use.h"
#include "evenkeel/base/priority.h"
#include "evenkeel/tenancy/limits.h"

namespace evenkeel {
namespace {

constexpr const char* other_tenants = "other";

/// A tenant over a time.
struct Use {
  std::uint64_t requests = 0;
  std::uint64_t output_tokens = 0;
  std::uint64_t tokens = 0;  // of prompts and outputs
};

std::uint64_t tokens_in(const TenantTotals& totals, TokenDirection direction) {
  return totals.tokens[static_cast<std::size_t>(direction)];
}

/// A counter that went back was cleared meanwhile.
std::uint64_t rise(std::uint64_t now, std::uint64_t before) {
  return now < before ? now : now - before;
}

Use use_between(const TenantTotals& before, const TenantTotals& now) {
  const auto tokens = [&](TokenDirection direction) {
    return rise(tokens_in(now, direction), tokens_in(before, direction));
  };
  return {.requests = rise(now.requests, before.requests),
          .output_tokens = tokens(TokenDirection::output),
          .tokens = tokens(TokenDirection::input) + tokens(TokenDirection::output)};
}

}  // namespace

TenantUsage::Totals TenantUsage::totals_of(const RuntimeView& view) {
  const MetricsRegistry& registry = *view.runtime.metrics_registry;
  const auto names = registry.label_index().view().tenants;
  Totals totals;
  for (std::uint32_t index = 1; index < names.size(); ++index) {
    if (!names[index].empty()) totals[names[index]] = registry.tenant_totals(index);
  }
  return totals;
}

void TenantUsage::sample(const RuntimeView& view) {
  if (view.status->config->tenants.empty()) {
    samples_.clear();
    return;
  }
  if (!samples_.empty() && view.now - samples_.back().time < interval) return;
  samples_.push_back({.time = view.now, .totals = totals_of(view)});
  while (view.now - samples_.front().time > window) samples_.pop_front();
}

JsonValue::List TenantUsage::document(const RuntimeView& view) const {
  std::vector<TenantConfig> tenants = view.status->config->tenants;
  if (tenants.empty()) return {};
  tenants.push_back({.name = other_tenants, .priority = Priority::standard});
  const Totals now = totals_of(view);
  const Sample first =
      samples_.empty() ? Sample{.time = view.now, .totals = now} : samples_.front();
  const double passed = seconds_of(view.now - first.time);
  const auto found = [](const Totals& totals, const std::string& name) {
    const auto entry = totals.find(name);
    return entry == totals.end() ? TenantTotals{} : entry->second;
  };
  std::uint64_t all_tokens = 0;
  for (const auto& [name, totals] : now)
    all_tokens += use_between(found(first.totals, name), totals).tokens;

  const auto rate = [&](std::uint64_t count) {
    return passed > 0 ? JsonValue(static_cast<double>(count) / passed) : JsonValue();
  };
  const LimitTable limits(*view.status->config);
  const LimitUse* const limit_use = view.status->pool_set->limit_use();
  std::uint32_t number = 0;
  JsonValue::List documents;
  for (const TenantConfig& tenant : tenants) {
    const auto of_tenant =
        limit_use == nullptr ? std::span<const Limit>() : limits.of_tenant(++number);
    const TenantTotals totals = found(now, tenant.name);
    const Use use = use_between(found(first.totals, tenant.name), totals);
    JsonValue document;
    document.add("name", tenant.name);
    document.add("weight", tenant.weight);
    document.add("priority",
                 tenant.priority ? JsonValue(to_string(*tenant.priority)) : JsonValue());
    document.add("running", totals.in_flight - totals.waiting);
    document.add("waiting", totals.waiting);
    document.add("requests_total", totals.requests);
    document.add("input_tokens_total", tokens_in(totals, TokenDirection::input));
    document.add("cached_tokens_total", tokens_in(totals, TokenDirection::cached));
    document.add("output_tokens_total", tokens_in(totals, TokenDirection::output));
    document.add("requests_per_second", rate(use.requests));
    document.add("output_tokens_per_second", rate(use.output_tokens));
    document.add("tokens_ratio", all_tokens == 0 ? JsonValue()
                                                 : JsonValue(static_cast<double>(use.tokens) /
                                                             static_cast<double>(all_tokens)));
    document.add("limits", limits_document(of_tenant, limit_use));
    documents.push_back(std::move(document));
  }
  return documents;
}

}  // namespace evenkeel
