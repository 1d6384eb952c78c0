#include "evenkeel/stats/request_totals.h"

#include <cstddef>
#include <vector>

#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

RequestTotals read_request_totals(const MetricsRegistry& registry) {
  const std::size_t pools = registry.label_index().view().pools.size();
  RequestTotals totals;
  Histogram<first_byte_bounds>().add_to(totals.first_token);
  for (unsigned worker = 0; worker < registry.size(); ++worker) {
    const WorkerMetrics& metrics = registry.worker_metrics(worker);
    for (std::uint32_t pool = 0; pool < pools; ++pool) {
      metrics.each_model(pool, [&](const ModelMetrics& model) {
        totals.output_tokens += model.tokens.value(TokenDirection::output);
        model.first_token.add_to(totals.first_token);
      });
      const PoolMetrics* const found = metrics.find_pool(pool);
      if (found == nullptr) continue;
      HistogramTotals durations;
      found->duration.add_to(durations);
      for (const std::uint64_t count : durations.counts) totals.requests += count;
      each_fault([&](Fault fault) {
        totals.errors[static_cast<std::size_t>(fault)] += found->errors.value(fault);
      });
    }
  }
  return totals;
}

std::optional<double> quantile_between(const HistogramTotals& before, const HistogramTotals& after,
                                       double share) {
  std::vector<std::uint64_t> counts;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < after.counts.size(); ++i) {
    counts.push_back(increase(before.counts[i], after.counts[i]));
    total += counts.back();
  }
  if (total == 0) return std::nullopt;
  double rest = share * static_cast<double>(total);
  double lower = 0;
  for (std::size_t i = 0; i < after.bounds.size(); ++i) {
    const double upper = static_cast<double>(after.bounds[i]) / 1e9;
    const auto count = static_cast<double>(counts[i]);
    if (rest <= count) return lower + (upper - lower) * rest / count;
    rest -= count;
    lower = upper;
  }
  return lower;
}

}  // namespace evenkeel
