#include "response_metrics.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

namespace evenkeel {
namespace {

/// A pool and a model, and the metrics of the workers that have served it. A model that the file
/// names for a pool needs none.
struct ServedModel {
  Labels labels;
  std::vector<const ModelMetrics*> of_workers;
};

std::vector<ServedModel> served_models(const MetricsRegistry& registry,
                                       const LabelIndex::View& names) {
  std::vector<ServedModel> served;
  for (std::uint32_t pool = 1; pool < names.pools.size(); ++pool) {
    if (!names.has_pool(pool)) continue;
    for (std::uint32_t model = 0; model < names.models.size(); ++model) {
      std::vector<const ModelMetrics*> of_workers;
      for (unsigned worker = 0; worker < registry.size(); ++worker) {
        const ModelMetrics* metrics = registry.worker_metrics(worker).find_model(pool, model);
        if (metrics != nullptr) of_workers.push_back(metrics);
      }
      const bool expected = std::ranges::binary_search(names.pool_models, std::pair(pool, model));
      if (of_workers.empty() && !expected) continue;
      served.push_back(
          {{{"pool", names.pools[pool]}, {"model", names.models[model]}}, std::move(of_workers)});
    }
  }
  return served;
}

template <auto member>
void add_times(MetricsPage& page, const std::vector<ServedModel>& served) {
  for (const ServedModel& each : served) {
    HistogramTotals totals;
    // The buckets, in case no worker has a histogram.
    std::remove_cvref_t<decltype(std::declval<ModelMetrics>().*member)>().add_to(totals);
    for (const ModelMetrics* metrics : each.of_workers) (metrics->*member).add_to(totals);
    page.add(each.labels, totals);
  }
}

}  // namespace

void add_response_metrics(MetricsPage& page, const MetricsRegistry& registry,
                          const LabelIndex::View& names) {
  const std::vector<ServedModel> served = served_models(registry, names);
  page.counters("evenkeel_tokens_total", "Tokens that engines reported, by direction.");
  for (const ServedModel& each : served) {
    for (std::size_t i = 0; i < token_direction_count; ++i) {
      const auto direction = static_cast<TokenDirection>(i);
      std::uint64_t tokens = 0;
      for (const ModelMetrics* metrics : each.of_workers)
        tokens += metrics->tokens.value(direction);
      page.add(each.labels, {"direction", to_string(direction)}, tokens);
    }
  }
  page.histograms("evenkeel_time_to_first_token_seconds",
                  "Time from a request's first byte to the first output of its stream.");
  add_times<&ModelMetrics::first_token>(page, served);
  page.histograms("evenkeel_time_per_output_token_seconds",
                  "Time between the first and the last output of a stream, by the tokens between.");
  add_times<&ModelMetrics::per_output_token>(page, served);
  page.histograms("evenkeel_inter_token_gap_seconds",
                  "Time between two outputs of a stream that did not arrive together.");
  add_times<&ModelMetrics::gap>(page, served);
}

}  // namespace evenkeel
