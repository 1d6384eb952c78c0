#include "tenant_metrics.h"

#include <array>

namespace evenkeel {
namespace {

struct TenantTotals {
  std::uint64_t requests = 0;
  std::array<std::uint64_t, token_direction_count> tokens{};
};

TenantTotals totals_of(const MetricsRegistry& registry, std::uint32_t tenant) {
  TenantTotals totals;
  for (unsigned worker = 0; worker < registry.size(); ++worker) {
    const TenantMetrics* metrics = registry.worker_metrics(worker).find_tenant(tenant);
    if (metrics == nullptr) continue;
    totals.requests += metrics->requests.value();
    for (std::size_t i = 0; i < totals.tokens.size(); ++i)
      totals.tokens[i] += metrics->tokens.value(static_cast<TokenDirection>(i));
  }
  return totals;
}

template <class Each>
void each_tenant(const LabelIndex::View& names, Each each) {
  for (std::uint32_t tenant = 1; tenant < names.tenants.size(); ++tenant) {
    if (!names.tenants[tenant].empty()) each(tenant, Labels{{"tenant", names.tenants[tenant]}});
  }
}

}  // namespace

void add_tenant_metrics(MetricsPage& page, const MetricsRegistry& registry,
                        const LabelIndex::View& names) {
  if (names.tenants.empty()) return;
  page.counters("evenkeel_tenant_requests_total", "Requests that have ended, by tenant.");
  each_tenant(names, [&](std::uint32_t tenant, const Labels& labels) {
    page.add(labels, totals_of(registry, tenant).requests);
  });
  page.counters("evenkeel_tenant_tokens_total",
                "Tokens that engines reported, by tenant and direction.");
  each_tenant(names, [&](std::uint32_t tenant, const Labels& labels) {
    const TenantTotals totals = totals_of(registry, tenant);
    for (std::size_t i = 0; i < totals.tokens.size(); ++i) {
      page.add(labels, {"direction", to_string(static_cast<TokenDirection>(i))}, totals.tokens[i]);
    }
  });
}

}  // namespace evenkeel
