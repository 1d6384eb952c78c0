#include "admin/pool_families.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/pool/answer_cache.h"

namespace evenkeel {
namespace {

/// A value of one pool, and the labels of its series.
template <class T>
struct Row {
  Labels labels;
  T value;
};

/// The statistics of the pools for which `part_of` returns a part that has some, and not null.
template <class PartOf>
auto rows_of(const RuntimeView& view, PartOf part_of) {
  std::vector<Row<decltype(part_of(std::declval<const PoolState&>())->stats())>> rows;
  for (const PoolSet::PoolEntry& pool : view.status->pool_set->pools()) {
    const auto part = part_of(*pool.state);
    if (part != nullptr) rows.push_back({{{"pool", pool.state->config().name}}, part->stats()});
  }
  return rows;
}

void add_affinity(MetricsPage& page, const RuntimeView& view) {
  const auto rows = rows_of(view, [](const PoolState& pool) { return pool.affinity(); });
  if (rows.empty()) return;
  page.gauges("evenkeel_affinity_sessions", "Sessions that are pinned to a backend.");
  for (const auto& [labels, stats] : rows) page.add(labels, stats.sessions);
  page.counters("evenkeel_affinity_requests_total",
                "Requests of a session, by what became of its pin.");
  for (const auto& [labels, stats] : rows) {
    page.add(labels, {"result", "hit"}, stats.hits);
    page.add(labels, {"result", "miss"}, stats.misses);
    page.add(labels, {"result", "move"}, stats.moves);
  }
  page.counters("evenkeel_affinity_evictions_total",
                "Sessions that were forgotten for lack of room.");
  for (const auto& [labels, stats] : rows) page.add(labels, stats.evictions);
}

void add_caches(MetricsPage& page, const RuntimeView& view) {
  std::vector<Row<AnswerCache::Stats>> rows;
  for (const PoolSet::PoolEntry& pool : view.status->pool_set->pools()) {
    const auto& answers = pool.state->answers();
    if (answers == nullptr) continue;
    rows.push_back({{{"pool", pool.state->config().name}}, answers->stats()});
  }
  if (rows.empty()) return;
  page.gauges("evenkeel_cache_bytes", "Memory for answers that are kept.");
  for (const auto& [labels, stats] : rows) page.add(labels, stats.bytes);
  page.gauges("evenkeel_cache_answers", "Answers that are kept.");
  for (const auto& [labels, stats] : rows) page.add(labels, stats.answers);
}

void add_discovery(MetricsPage& page, const RuntimeView& view) {
  const std::vector<DiscoveryStatus>& all = view.status->discovery;
  if (all.empty()) return;
  page.gauges("evenkeel_discovery_backends", "Backends that the pool's `discover` has found.");
  for (const DiscoveryStatus& each : all)
    page.add({{"pool", each.pool}}, static_cast<std::uint64_t>(each.backends));
  page.gauges("evenkeel_discovery_age_seconds",
              "How long ago the source of the pool's `discover` last said who is in it.");
  for (const DiscoveryStatus& each : all) {
    if (each.last_good)
      page.add({{"pool", each.pool}}, seconds_of(std::max(view.now - *each.last_good, Duration{})));
  }
  page.counters("evenkeel_discovery_failures_total",
                "Times that the source of the pool's `discover` could not be read.");
  for (const DiscoveryStatus& each : all) page.add({{"pool", each.pool}}, each.failures);
  page.counters(
      "evenkeel_discovery_held_total",
      "Lists of the pool's `discover` that had lost more than half of their backends, and "
      "were read a second time before they counted.");
  for (const DiscoveryStatus& each : all) page.add({{"pool", each.pool}}, each.held);
}

/// Adds the subsets that a split names.
void add_subsets(MetricsPage& page, const RuntimeView& view) {
  std::vector<Row<const Subset*>> rows;
  for (const PoolSet::PoolEntry& pool : view.status->pool_set->pools()) {
    for (const Subset& subset : pool.state->backend_set().subsets()) {
      if (!subset.spec().is_choice()) continue;
      rows.push_back({{{"pool", pool.state->config().name}, {"subset", subset.name()}}, &subset});
    }
  }
  if (rows.empty()) return;
  page.gauges("evenkeel_subset_in_rotation",
              "Backends with these labels that may get requests; 0: others get them.");
  for (const auto& [labels, subset] : rows) page.add(labels, subset->in_rotation());
  page.counters("evenkeel_subset_fallbacks_total",
                "Attempts that went to other backends of the pool, since none with these labels "
                "could take them.");
  for (const auto& [labels, subset] : rows) page.add(labels, subset->fallbacks());
}

struct Family {
  std::string_view name;
  std::string_view help;
  double (*value)(const SchedulerStats&);
};

constexpr Family scheduler_counters[] = {
    {"evenkeel_scheduler_placed_total", "Requests that the pool's scheduler gave a backend.",
     [](const SchedulerStats& stats) { return static_cast<double>(stats.placed_total); }},
    {"evenkeel_scheduler_refused_total",
     "Requests that the pool's scheduler refused, since their first token would have come too "
     "late.",
     [](const SchedulerStats& stats) { return static_cast<double>(stats.refused_total); }},
    {"evenkeel_scheduler_first_tokens_total",
     "Requests that the scheduler placed and whose first token was seen.",
     [](const SchedulerStats& stats) { return static_cast<double>(stats.first_tokens_total); }},
    {"evenkeel_scheduler_predicted_first_token_seconds_total",
     "Sum of the predicted times from when a request was sent to its first token, of requests "
     "whose first token was seen.",
     [](const SchedulerStats& stats) { return seconds_of(stats.predicted_ttft_sum); }},
    {"evenkeel_scheduler_first_token_seconds_total",
     "Sum of the actual times from when a request was sent to its first token, of requests whose "
     "first token was seen.",
     [](const SchedulerStats& stats) { return seconds_of(stats.ttft_sum); }},
    {"evenkeel_scheduler_first_token_error_seconds_total",
     "Sum of the absolute errors of the predicted times to the first token, of requests whose "
     "first token was seen.",
     [](const SchedulerStats& stats) { return seconds_of(stats.ttft_error_sum); }},
    {"evenkeel_scheduler_demand_prefill_seconds_total",
     "Predicted time of engines for the prompts of requests that were placed or refused.",
     [](const SchedulerStats& stats) { return seconds_of(stats.prefill_sum); }},
    {"evenkeel_scheduler_demand_decode_seconds_total",
     "Predicted time for which the outputs of requests that were placed or refused are decoded, "
     "each as one stream among others.",
     [](const SchedulerStats& stats) { return seconds_of(stats.decode_sum); }},
};

void add_schedulers(MetricsPage& page, const RuntimeView& view) {
  const auto rows = rows_of(view, [](const PoolState& pool) { return pool.scheduled(); });
  if (rows.empty()) return;
  for (const Family& family : scheduler_counters) {
    page.counters(family.name, family.help);
    for (const auto& [labels, stats] : rows) page.add(labels, family.value(stats));
  }
  page.gauges("evenkeel_scheduler_index_bytes",
              "Memory for what the backends' prefix caches are believed to hold.");
  for (const auto& [labels, stats] : rows) page.add(labels, stats.index_bytes);
}

void add_shadows(MetricsPage& page, const RuntimeView& view) {
  std::vector<Row<ShadowStats>> rows;
  for (const PoolSet::PoolEntry& pool : view.status->pool_set->pools()) {
    if (pool.state->scheduled() == nullptr) continue;
    const SchedulerStats stats = pool.state->scheduled()->stats();
    if (!stats.shadow) continue;
    const PoolConfig& config = pool.state->config();
    rows.push_back(
        {{{"pool", config.name}, {"picker", config.picker.shadow_picker->name}}, *stats.shadow});
  }
  if (rows.empty()) return;
  page.counters("evenkeel_shadow_choices_total",
                "Choices of a pool's shadow picker: the scheduler's at that time, another one, or "
                "a backend that takes no requests.");
  for (const auto& [labels, shadow] : rows) {
    page.add(labels, {"result", "same"}, shadow.agreed_total);
    page.add(labels, {"result", "other"}, shadow.compared_total - shadow.agreed_total);
    page.add(labels, {"result", "unavailable"}, shadow.unavailable_total);
  }
  page.counters("evenkeel_shadow_regret_seconds_total",
                "By how much the other choices cost more than the scheduler's, where they do.");
  for (const auto& [labels, shadow] : rows) page.add(labels, seconds_of(shadow.regret_sum));
  page.counters("evenkeel_shadow_gain_seconds_total",
                "By how much the other choices cost less than the scheduler's, where they do.");
  for (const auto& [labels, shadow] : rows) page.add(labels, seconds_of(shadow.gain_sum));
}

/// Returns the standard deviation over the mean of the requests in flight by weight, of backends
/// that are in rotation. Nothing: there are fewer than two, or none has a request.
std::optional<double> balance_cv(const PoolState& pool) {
  double sum = 0;
  double squares = 0;
  double count = 0;
  for (const BackendPtr& backend : pool.backends()) {
    if (!backend->state().in_rotation()) continue;
    const double load = backend->slots().in_flight() /
                        static_cast<double>(std::max(backend->spec().config.weight, 1u));
    sum += load;
    squares += load * load;
    ++count;
  }
  if (count < 2 || sum == 0) return std::nullopt;
  const double mean = sum / count;
  return std::sqrt(std::max(0.0, squares / count - mean * mean)) / mean;
}

void add_balance(MetricsPage& page, const RuntimeView& view) {
  page.gauges("evenkeel_balance_cv",
              "How uneven the requests in flight by weight are: their standard deviation over "
              "their mean.");
  for (const PoolSet::PoolEntry& pool : view.status->pool_set->pools()) {
    const auto cv = balance_cv(*pool.state);
    if (cv) page.add({{"pool", pool.state->config().name}}, *cv);
  }
}

}  // namespace

void add_panic_family(MetricsPage& page, const RuntimeView& view) {
  page.gauges("evenkeel_pool_panic",
              "1 while fewer than half of a pool's backends are fit to serve.");
  for (const PoolSet::PoolEntry& pool : view.status->pool_set->pools()) {
    page.add({{"pool", pool.state->config().name}}, std::uint64_t{pool.state->panics()});
  }
}

void add_pool_families(MetricsPage& page, const RuntimeView& view) {
  add_balance(page, view);
  add_affinity(page, view);
  add_caches(page, view);
  add_subsets(page, view);
  add_discovery(page, view);
  add_schedulers(page, view);
  add_shadows(page, view);
}

}  // namespace evenkeel
