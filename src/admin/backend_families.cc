#include "admin/backend_families.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "evenkeel/admin/reported_state.h"
#include "evenkeel/stats/fault_labels.h"
#include "evenkeel/upstream/backend_monitor.h"

namespace evenkeel {
namespace {

/// A backend, the labels of its series, and what takes a lock or a sum.
struct Row {
  Labels labels;
  const SharedBackend& shared;
  std::string_view state;
  bool up;                         // it may be given requests
  const BackendStatus* monitored;  // null: nothing is known
  bool inspected;                  // what its engine reports of tokens is read
  BackendTotals totals;
  std::optional<BackendForecast> forecast;  // of pools with a scheduler
};

using Rows = std::vector<Row>;

Rows rows_of(const RuntimeView& view) {
  Rows rows;
  const MetricsRegistry& registry = *view.runtime.metrics_registry;
  const std::vector<PoolSet::PoolEntry>& pools = view.status->pool_set->pools();
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const PoolState& pool = *pools[i].state;
    const std::string& name = pool.config().name;
    const bool inspected = inspects(view.status->config->pools[i]);
    for (const BackendPtr& backend : pool.backends()) {
      const SharedBackend& shared = backend->shared();
      const std::uint32_t index = registry.label_index().find_backend(name, backend->id());
      rows.push_back({.labels = {{"pool", name}, {"backend", backend->id()}},
                      .shared = shared,
                      .state = state_of(*backend, view.now),
                      .up = shared.state.in_rotation() && !shared.state.unreachable(view.now),
                      .monitored = view.monitored->find(name, backend->id()),
                      .inspected = inspected,
                      .totals = registry.backend_totals(index),
                      .forecast = pool.scheduled() == nullptr
                                      ? std::nullopt
                                      : pool.scheduled()->forecast(*backend, view.now)});
    }
  }
  return rows;
}

void add_states(MetricsPage& page, const Rows& rows) {
  page.gauges("evenkeel_backend_up", "1 if the backend may get requests.");
  for (const Row& row : rows) page.add(row.labels, std::uint64_t{row.up});
  page.gauges("evenkeel_backend_state", "1 for the state that a backend is in.");
  for (const Row& row : rows) {
    for (const std::string_view state : backend_states) {
      page.add(row.labels, {"state", state}, std::uint64_t{row.state == state});
    }
  }
}

/// Each worker moves its gauges in its own time, so the sum may be below 0 for a moment.
std::uint64_t links(std::int64_t count) {
  return count < 0 ? 0 : static_cast<std::uint64_t>(count);
}

void add_traffic(MetricsPage& page, const Rows& rows) {
  page.gauges("evenkeel_backend_in_flight", "Requests in flight on a backend.");
  for (const Row& row : rows) page.add(row.labels, row.shared.slots.in_flight());
  page.counters("evenkeel_backend_picks_total", "How often a backend was picked.");
  for (const Row& row : rows) page.add(row.labels, row.shared.slots.picks_total());
  page.counters("evenkeel_backend_errors_total", "Attempts that failed at a backend, by reason.");
  for (const Row& row : rows) {
    each_fault([&](Fault fault) {
      const std::uint64_t count = row.shared.stats.errors_total(fault);
      if (count == 0 && !is_attempt_fault(fault)) return;
      page.add(row.labels, {"reason", to_string(fault)}, count);
    });
    page.add(row.labels, {"reason", "status_5xx"}, row.shared.stats.failed_responses_total());
  }
  page.counters("evenkeel_backend_requests_total",
                "Requests that a backend answered, by the class of the status.");
  for (const Row& row : rows) {
    static constexpr std::string_view classes[] = {"1xx", "2xx", "3xx", "4xx", "5xx"};
    for (std::size_t i = 0; i < std::size(classes); ++i) {
      page.add(row.labels, {"code_class", classes[i]}, row.totals.status_classes[i]);
    }
  }
  page.gauges("evenkeel_backend_links", "Connections to a backend: busy with a request, or idle.");
  for (const Row& row : rows) {
    page.add(row.labels, {"state", "busy"}, links(row.totals.links_busy));
    page.add(row.labels, {"state", "idle"}, links(row.totals.links_idle));
  }
  page.histograms(
      "evenkeel_backend_time_to_first_byte_seconds",
      "Time from the end of a request sent to a backend to the beginning of its "
      "response: the first output of a model's stream, the first byte of another, or the "
      "head.");
  for (const Row& row : rows) page.add(row.labels, row.totals.first_byte);
  page.histograms(
      "evenkeel_backend_latency_seconds",
      "Time from the end of a request sent to a backend to the last byte of its response.");
  for (const Row& row : rows) page.add(row.labels, row.totals.latency);
  page.histograms("evenkeel_backend_time_per_output_token_seconds",
                  "Time between two tokens of a backend's streams, each measured about twice a "
                  "second.");
  for (const Row& row : rows) page.add(row.labels, row.totals.per_output_token);
  page.gauges("evenkeel_backend_slow",
              "1 for what a backend takes much longer for than the others of its pool.");
  for (const Row& row : rows) {
    const Slowness slowness = row.shared.findings.slowness();
    for (int i = 0; i < slow_part_count; ++i) {
      const auto part = static_cast<SlowPart>(i);
      const bool is_slow = slowness.ratio > 0 && slowness.part == part;
      page.add(row.labels, {"part", to_string(part)}, std::uint64_t{is_slow});
    }
  }
}

/// Adds tokens, of backends whose responses are read.
void add_tokens(MetricsPage& page, const Rows& rows) {
  page.counters("evenkeel_backend_tokens_total",
                "Tokens that a backend's engine reported, by direction.");
  for (const Row& row : rows) {
    const auto& tokens = row.totals.tokens;
    const bool none = std::count(tokens.begin(), tokens.end(), 0) == std::ssize(tokens);
    if (none && !row.inspected) continue;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      page.add(row.labels, {"direction", to_string(static_cast<TokenDirection>(i))}, tokens[i]);
    }
  }
}

void add_cached_tokens(MetricsPage& page, const Rows& rows) {
  page.counters("evenkeel_backend_cached_prompt_tokens_total",
                "Tokens of prompts that a backend had in its cache, of responses that reported "
                "theirs: as predicted when the requests were placed, and as reported.");
  for (const Row& row : rows) {
    if (!row.forecast) continue;
    page.add(row.labels, {"source", "predicted"}, row.forecast->predicted_cached);
    page.add(row.labels, {"source", "reported"}, row.forecast->reported_cached);
  }
}

void add_ejections(MetricsPage& page, const Rows& rows) {
  page.counters("evenkeel_backend_ejections_total",
                "How often a backend was ejected because its requests failed, by reason.");
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < ejection_reason_count; ++i) {
      const auto reason = static_cast<EjectionReason>(i);
      page.add(row.labels, {"reason", to_string(reason)}, row.shared.state.ejections_total(reason));
    }
  }
}

/// Adds the results of health checks, also those that were not seen yet, where health is checked.
void add_checks(MetricsPage& page, const Rows& rows) {
  page.counters("evenkeel_backend_health_checks_total", "Health checks of a backend, by result.");
  for (const Row& row : rows) {
    if (row.monitored == nullptr || row.monitored->health.state == HealthState::unchecked) continue;
    for (std::size_t i = 0; i < check_result_count; ++i) {
      page.add(row.labels, {"result", to_string(static_cast<CheckResult>(i))},
               row.monitored->health.checks[i]);
    }
  }
}

/// An unknown value has no series.
void add_polled(MetricsPage& page, const Rows& rows, Instant now) {
  struct Family {
    std::string_view name;
    std::string_view help;
    double LoadSample::* value;
  };
  static constexpr Family families[] = {
      {"evenkeel_backend_running_requests",
       "Requests that a backend's engine is processing, as polled.", &LoadSample::running},
      {"evenkeel_backend_waiting_requests", "Requests that wait in a backend's engine, as polled.",
       &LoadSample::waiting},
      {"evenkeel_backend_kv_cache_usage_ratio", "Used share of a backend's KV cache, as polled.",
       &LoadSample::kv_cache_ratio},
      {"evenkeel_backend_gpu_utilization_ratio", "Utilization of a backend's GPUs, as polled.",
       &LoadSample::gpu_utilization_ratio},
      {"evenkeel_backend_gpu_memory_used_bytes", "Used memory of a backend's GPUs, as polled.",
       &LoadSample::gpu_memory_used_bytes},
      {"evenkeel_backend_gpu_memory_total_bytes", "Total memory of a backend's GPUs, as polled.",
       &LoadSample::gpu_memory_total_bytes},
  };
  page.gauges("evenkeel_backend_polled_age_seconds",
              "Age of the last values polled from a backend's engine and GPU.");
  for (const Row& row : rows) {
    if (const auto age = row.shared.signals.age(now)) page.add(row.labels, seconds_of(*age));
  }
  for (const Family& family : families) {
    page.gauges(family.name, family.help);
    for (const Row& row : rows) {
      const double value = row.shared.signals.values().*family.value;
      if (!std::isnan(value)) page.add(row.labels, value);
    }
  }
}

/// What an engine does not say has no series.
void add_engine(MetricsPage& page, const Rows& rows) {
  page.counters("evenkeel_backend_engine_restarts_total",
                "How often a backend's engine has restarted.");
  for (const Row& row : rows) page.add(row.labels, row.shared.signals.engine().restarts());
  page.gauges("evenkeel_backend_kv_cache_tokens", "Tokens that a backend's KV cache holds.");
  for (const Row& row : rows) {
    const double tokens = row.shared.signals.engine().kv_tokens();
    if (!std::isnan(tokens)) page.add(row.labels, tokens);
  }
  page.counters("evenkeel_backend_prefix_cache_tokens_total",
                "Tokens of prompts that a backend's engine looked up in its prefix cache, by "
                "result.");
  for (const Row& row : rows) {
    const auto tokens = row.shared.signals.engine().prefix_cache();
    if (!tokens) continue;
    page.add(row.labels, {"result", "hit"}, tokens->hit);
    page.add(row.labels, {"result", "miss"},
             tokens->queried - std::min(tokens->hit, tokens->queried));
  }
  page.gauges("evenkeel_backend_lora_adapters", "LoRA adapters that a backend's engine holds.");
  for (const Row& row : rows) {
    const LoadedAdapters* const adapters = row.shared.signals.engine().adapters();
    if (adapters != nullptr) page.add(row.labels, adapters->size());
  }
}

/// Adds forecasts, of pools with a scheduler.
void add_forecasts(MetricsPage& page, const Rows& rows) {
  if (std::ranges::none_of(rows, [](const Row& row) { return row.forecast.has_value(); })) return;
  static constexpr Confidence confidences[] = {Confidence::confirmed, Confidence::assumed_hits,
                                               Confidence::unseen_first_tokens,
                                               Confidence::unknown_prompts, Confidence::cold};
  page.gauges(
      "evenkeel_backend_confidence",
      "1 for the confidence that the pool's scheduler has in what it predicts for a backend.");
  for (const Row& row : rows) {
    if (!row.forecast) continue;
    for (const Confidence confidence : confidences) {
      page.add(row.labels, {"confidence", to_string(confidence)},
               std::uint64_t{row.forecast->confidence == confidence});
    }
  }
  page.gauges("evenkeel_backend_predicted_wait_seconds",
              "Predicted time until a backend begins a prompt that is sent to it now.");
  for (const Row& row : rows) {
    if (row.forecast) page.add(row.labels, seconds_of(row.forecast->wait));
  }
}

}  // namespace

void add_backend_families(MetricsPage& page, const RuntimeView& view) {
  const Rows rows = rows_of(view);
  add_states(page, rows);
  add_traffic(page, rows);
  add_tokens(page, rows);
  add_cached_tokens(page, rows);
  add_ejections(page, rows);
  add_checks(page, rows);
  add_polled(page, rows, view.now);
  add_engine(page, rows);
  add_forecasts(page, rows);
}

}  // namespace evenkeel
