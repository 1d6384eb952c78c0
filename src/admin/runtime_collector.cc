#include "admin/runtime_collector.h"

#include <algorithm>

#include "evenkeel/admin/backend_state.h"
#include "evenkeel/base/log.h"
#include "evenkeel/upstream/backend_monitor.h"

namespace evenkeel {
namespace {

PolledSnapshot polled(const Signals& signals, Instant now) {
  PolledSnapshot reading{signals.values()};
  if (const auto age = signals.age(now)) reading.age_seconds = seconds_of(*age);
  return reading;
}

EngineStateSnapshot snapshot_of(const EngineState& engine) {
  EngineStateSnapshot snapshot{.restarts = engine.restarts(), .kv_tokens = engine.kv_tokens()};
  if (const auto tokens = engine.prefix_cache()) {
    snapshot.prefix_cache = {.queried_tokens = tokens->queried, .hit_tokens = tokens->hit};
  }
  if (const LoadedAdapters* adapters = engine.adapters()) snapshot.adapters = adapters->size();
  return snapshot;
}

std::optional<AffinitySnapshot> collect_affinity(const PoolState& pool) {
  const auto stats = pool.affinity_stats();
  if (!stats) return std::nullopt;
  return AffinitySnapshot{.sessions = stats->sessions,
                          .hits = stats->hits,
                          .misses = stats->misses,
                          .moves = stats->moves,
                          .evictions = stats->evictions};
}

std::optional<ShadowSnapshot> collect_shadow(const PoolState& pool, const SchedulerStats& stats) {
  if (!stats.shadow) return std::nullopt;
  return ShadowSnapshot{.picker = pool.spec().shadow_picker,
                        .compared = stats.shadow->compared_total,
                        .agreed = stats.shadow->agreed_total,
                        .unavailable = stats.shadow->unavailable_total,
                        .regret_sum = seconds_of(stats.shadow->regret_sum),
                        .gain_sum = seconds_of(stats.shadow->gain_sum)};
}

std::optional<SchedulerSnapshot> collect_scheduler(const PoolState& pool) {
  const auto stats = pool.scheduler_stats();
  if (!stats) return std::nullopt;
  return SchedulerSnapshot{.placed = stats->placed_total,
                           .refused = stats->refused_total,
                           .first_tokens = stats->first_tokens_total,
                           .predicted_ttft_sum = seconds_of(stats->predicted_ttft_sum),
                           .ttft_sum = seconds_of(stats->ttft_sum),
                           .ttft_error_sum = seconds_of(stats->ttft_error_sum),
                           .prefill_sum = seconds_of(stats->prefill_sum),
                           .decode_sum = seconds_of(stats->decode_sum),
                           .index_bytes = stats->index_bytes,
                           .shadow = collect_shadow(pool, *stats)};
}

std::vector<SubsetSnapshot> collect_subsets(const PoolState& pool) {
  std::vector<SubsetSnapshot> snapshots;
  for (const Subset& subset : pool.subsets()) {
    if (!subset.spec().is_choice()) continue;
    snapshots.push_back({.name = subset.name(),
                         .in_rotation = subset.in_rotation(),
                         .fallbacks = subset.fallbacks()});
  }
  return snapshots;
}

}  // namespace

MetricsSnapshot RuntimeCollector::collect() {
  const RuntimeView view(runtime_);
  MetricsSnapshot snapshot;
  for (const ListenerConfig& listener : view.status->config->listeners) {
    if (listener.tls) snapshot.tls_listeners.push_back(listener.name);
  }
  const std::vector<PoolSet::PoolEntry>& pools = view.status->pool_set->pools();
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const PoolSet::PoolEntry& pool = pools[i];
    snapshot.pools.push_back({.name = pool.state->spec().name,
                              .panics = pool.state->panics(),
                              .affinity = collect_affinity(*pool.state),
                              .subsets = collect_subsets(*pool.state),
                              .scheduler = collect_scheduler(*pool.state)});
    for (const BackendPtr& backend : pool.state->backends()) {
      BackendSnapshot& reading =
          snapshot.backends.emplace_back(collect(view, pool.state->spec().name, *backend));
      reading.inspected = inspects(view.status->config->pools[i]);
      if (const auto forecast = pool.state->forecast(*backend, view.now)) {
        reading.rung = to_string(forecast->rung);
        reading.predicted_wait_seconds = seconds_of(forecast->wait);
        const Scheduler::CachedTokens tokens = forecast->cached_tokens;
        reading.cached_tokens = {tokens.predicted, tokens.reported};
      }
    }
  }
  for (Loop* const loop : runtime_.loops) {
    snapshot.loop_lag = std::max(snapshot.loop_lag, loop->take_max_iteration_time());
  }
  if (runtime_.access_log != nullptr) {
    snapshot.access_log_dropped = runtime_.access_log->dropped();
  }
  snapshot.log_dropped = log::dropped_lines();
  if (runtime_.memory != nullptr) {
    snapshot.memory_limit_bytes = runtime_.memory->limit_bytes.load(std::memory_order_relaxed);
    snapshot.memory_used_bytes = runtime_.memory->used_bytes.load(std::memory_order_relaxed);
  }
  snapshot.config_reload_ok = view.status->reload_problems.empty();
  snapshot.upgrade_ok = view.status->upgrade_problem.empty();
  snapshot.state_file_ok = view.status->state_file_problem.empty();
  snapshot.config_loaded = view.status->loaded_at;
  return snapshot;
}

BackendSnapshot RuntimeCollector::collect(const RuntimeView& view, const std::string& pool,
                                          const Backend& backend) const {
  const Load& load = backend.load();
  const std::uint32_t index =
      runtime_.metrics_registry->label_index().find_backend(pool, backend.id());
  BackendSnapshot reading{.pool = pool,
                          .backend = backend.id(),
                          .state = state_of(backend, view.now),
                          .up = load.in_rotation() && !load.unreachable(view.now),
                          .in_flight = load.in_flight(),
                          .picks = load.picks_total(),
                          .failed_responses = load.failed_responses_total(),
                          .totals = runtime_.metrics_registry->backend_totals(index),
                          .polled = polled(load.signals(), view.now),
                          .engine = snapshot_of(load.signals().engine())};
  if (const Slowness slowness = load.slowness(); slowness.ratio > 0) {
    reading.slow_part = to_string(slowness.part);
  }
  for (int fault = 0; fault < fault_count; ++fault) {
    reading.errors[static_cast<std::size_t>(fault)] = load.errors_total(static_cast<Fault>(fault));
  }
  for (int i = 0; i < ejection_reason_count; ++i) {
    const auto reason = static_cast<EjectionReason>(i);
    reading.ejections.emplace_back(to_string(reason), load.ejections_total(reason));
  }
  const BackendStatus* monitored = view.monitored->find(pool, backend.id());
  if (monitored != nullptr && monitored->health.state != HealthState::unchecked) {
    for (std::size_t result = 0; result < check_result_count; ++result) {
      reading.checks.emplace_back(to_string(static_cast<CheckResult>(result)),
                                  monitored->health.checks[result]);
    }
  }
  return reading;
}

}  // namespace evenkeel
