#include "tenant_metrics.h"

namespace evenkeel {
namespace {

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
    page.add(labels, registry.tenant_totals(tenant).requests);
  });
  page.counters("evenkeel_tenant_tokens_total",
                "Tokens that engines reported, by tenant and direction.");
  each_tenant(names, [&](std::uint32_t tenant, const Labels& labels) {
    const TenantTotals totals = registry.tenant_totals(tenant);
    for (std::size_t i = 0; i < totals.tokens.size(); ++i) {
      page.add(labels, {"direction", to_string(static_cast<TokenDirection>(i))}, totals.tokens[i]);
    }
  });
  page.gauges("evenkeel_tenant_requests_in_flight",
              "Requests that have not ended and do not wait, by tenant.");
  each_tenant(names, [&](std::uint32_t tenant, const Labels& labels) {
    const TenantTotals totals = registry.tenant_totals(tenant);
    page.add(labels, totals.in_flight - totals.waiting);
  });
  page.gauges("evenkeel_tenant_requests_waiting", "Requests in the queue of a pool, by tenant.");
  each_tenant(names, [&](std::uint32_t tenant, const Labels& labels) {
    page.add(labels, registry.tenant_totals(tenant).waiting);
  });
}

}  // namespace evenkeel
