#include "admin/documents.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <optional>
#include <string>
#include <utility>

#include "admin/limit_use.h"
#include "evenkeel/backend/unavailable.h"
#include "evenkeel/base/rfc3339.h"
#include "evenkeel/upstream/backend_monitor.h"

namespace evenkeel {
namespace {

std::string text_of(std::chrono::system_clock::time_point time) {
  return rfc3339(std::chrono::floor<std::chrono::seconds>(time));
}

/// Unknown is null.
JsonValue seconds_or_null(const std::optional<Duration>& duration) {
  return duration ? JsonValue(seconds_of(*duration)) : JsonValue();
}

JsonValue source_document(const PollRecord& record) {
  JsonValue source;
  source.add("state", to_string(record.state));
  source.add("reason", text_or_null(record.reason));
  source.add("interval_seconds", seconds_of(record.interval));
  source.add("took_seconds", record.asked ? JsonValue(seconds_of(record.took)) : JsonValue());
  return source;
}

JsonValue polled_document(const BackendStatus* monitored, const Signals& signals, Instant now) {
  const LoadSample values = signals.values();
  JsonValue polled;
  polled.add("age_seconds", seconds_or_null(signals.age(now)));
  polled.add("running", values.running);
  polled.add("waiting", values.waiting);
  polled.add("kv_cache_ratio", values.kv_cache_ratio);
  polled.add("gpu_utilization_ratio", values.gpu_utilization_ratio);
  polled.add("gpu_memory_used_bytes", values.gpu_memory_used_bytes);
  polled.add("gpu_memory_total_bytes", values.gpu_memory_total_bytes);
  const PollStatus* status =
      monitored == nullptr || !monitored->polled ? nullptr : &*monitored->polled;
  const bool engine_is_polled =
      status != nullptr &&
      (status->engine.state != PollRecord::State::silent || !status->engine.reason.empty());
  polled.add("engine", engine_is_polled ? JsonValue(source_document(status->engine)) : JsonValue());
  polled.add("gpu_exporter", status != nullptr && status->gpu_exporter
                                 ? JsonValue(source_document(*status->gpu_exporter))
                                 : JsonValue());
  return polled;
}

/// What the engine says of itself.
JsonValue engine_document(const EngineState& engine) {
  JsonValue document;
  document.add("restarts_total", engine.restarts());
  document.add("kv_cache_tokens", engine.kv_tokens());
  document.add("step_tokens", engine.step_tokens());
  const auto tokens = engine.prefix_cache();
  document.add("prefix_queried_tokens_total", tokens ? JsonValue(tokens->queried) : JsonValue());
  document.add("prefix_hit_tokens_total", tokens ? JsonValue(tokens->hit) : JsonValue());
  const LoadedAdapters* const adapters = engine.adapters();
  document.add("lora_adapters", adapters == nullptr ? JsonValue() : JsonValue(adapters->size()));
  return document;
}

/// How many requests the process that this one has replaced has on a backend. Null: not known, or
/// that process does not know of the backend's drain yet and may send it more.
JsonValue replaced_in_flight(const RuntimeStatus& status, const std::string& pool,
                             const Backend& backend) {
  if (!status.replaced) return 0;
  const ReplacedProcess& replaced = *status.replaced;
  const ReplacedProcess::Backend key(pool, backend.id());
  const bool drains = backend.state().is_out(OutOfRotation::draining);
  if (!replaced.reported || (drains && !replaced.drained.contains(key))) return nullptr;
  const auto found = replaced.in_flight.find(key);
  return found == replaced.in_flight.end() ? 0 : found->second;
}

/// Returns null for a backend that is not slow.
JsonValue slowness_document(Slowness slowness) {
  if (slowness.ratio == 0) return nullptr;
  return JsonValue::Object{{"part", to_string(slowness.part)}, {"ratio", slowness.ratio}};
}

/// Null if no scheduler places the requests of its pool.
JsonValue forecast_document(const PoolState& pool, const Backend& backend, Instant now) {
  if (pool.scheduled() == nullptr) return nullptr;
  const auto forecast = pool.scheduled()->forecast(backend, now);
  if (!forecast) return nullptr;
  return JsonValue::Object{{"confidence", to_string(forecast->confidence)},
                           {"wait_seconds", seconds_of(forecast->wait)}};
}

/// Null without a shadow picker.
JsonValue shadow_document(const PoolState& pool, const SchedulerStats& stats) {
  if (!stats.shadow) return nullptr;
  JsonValue document;
  document.add("picker", pool.config().picker.shadow_picker->name);
  document.add("compared_total", stats.shadow->compared_total);
  document.add("agreed_total", stats.shadow->agreed_total);
  document.add("unavailable_total", stats.shadow->unavailable_total);
  document.add("regret_seconds_total", seconds_of(stats.shadow->regret_sum));
  document.add("gain_seconds_total", seconds_of(stats.shadow->gain_sum));
  return document;
}

/// Null if no scheduler places the requests of the pool.
JsonValue scheduler_document(const PoolState& pool) {
  if (pool.scheduled() == nullptr) return nullptr;
  const SchedulerStats stats = pool.scheduled()->stats();
  JsonValue document;
  document.add("placed_total", stats.placed_total);
  document.add("refused_total", stats.refused_total);
  document.add("first_tokens_total", stats.first_tokens_total);
  document.add("predicted_ttft_seconds_total", seconds_of(stats.predicted_ttft_sum));
  document.add("ttft_seconds_total", seconds_of(stats.ttft_sum));
  document.add("ttft_error_seconds_total", seconds_of(stats.ttft_error_sum));
  document.add("index_bytes", stats.index_bytes);
  document.add("shadow", shadow_document(pool, stats));
  return document;
}

/// The parts of a pool that a split names by labels.
JsonValue::List subsets_document(const PoolState& pool) {
  JsonValue::List subsets;
  for (const Subset& subset : pool.backend_set().subsets()) {
    if (!subset.spec().is_choice()) continue;
    std::uint64_t in_flight = 0;
    std::uint64_t picks = 0;
    for (const BackendPtr& backend : subset.backends()) {
      in_flight += backend->slots().in_flight();
      picks += backend->slots().picks_total();
    }
    JsonValue document;
    document.add("name", subset.name());
    document.add("backends", JsonValue::Object{{"up", subset.in_rotation()},
                                               {"total", subset.backends().size()}});
    document.add("in_flight", in_flight);
    document.add("picks_total", picks);
    document.add("fallbacks_total", subset.fallbacks());
    subsets.push_back(std::move(document));
  }
  return subsets;
}

}  // namespace

RuntimeView::RuntimeView(const RuntimeAccess& access)
    : runtime(access),
      status(access.status->snapshot()),
      monitored(access.backend_monitor == nullptr ? std::make_shared<const MonitorSnapshot>()
                                                  : access.backend_monitor->snapshot()),
      now(Clock::now()) {}

JsonValue text_or_null(std::string_view text) {
  return text.empty() ? JsonValue() : JsonValue(text);
}

JsonValue problem_document(const Problem& problem) {
  JsonValue document;
  document.add("file", problem.file);
  document.add("line", problem.line);
  document.add("column", problem.column);
  document.add("path", problem.path);
  document.add("message", problem.message);
  document.add("help", problem.help);
  document.add("severity", problem.severity == Severity::error ? "error" : "warning");
  return document;
}

JsonValue status_document(const RuntimeView& view) {
  const RuntimeStatus& status = *view.status;
  std::int64_t in_flight = 0;
  const MetricsRegistry& metrics = *view.runtime.metrics_registry;
  const auto labels = metrics.label_index().view();
  for (std::uint32_t pool = 0; pool < labels.pools.size(); ++pool) {
    in_flight += metrics.in_flight(pool);
  }
  JsonValue::List errors;
  for (const Problem& problem : status.reload_problems) errors.push_back(problem_document(problem));
  JsonValue config;
  config.add("file", status.config_file);
  config.add("hash", status.config_hash);
  config.add("loaded_at", text_of(status.loaded_at));
  config.add("last_reload_ok", status.reload_problems.empty());
  config.add("errors", std::move(errors));

  JsonValue document;
  document.add("version", status.version);
  document.add("uptime_seconds", seconds_of(view.now - status.started));
  document.add("config", std::move(config));
  document.add("workers", view.runtime.loops.size());
  document.add("cpu_quota", status.cpu_quota ? JsonValue(*status.cpu_quota) : JsonValue());
  document.add("busy_polling", status.config->busy_polling && status.may_busy_poll);
  document.add("connections", view.runtime.connections());
  document.add("requests_in_flight", in_flight);
  document.add("draining", status.draining);
  document.add("taken_over_by", status.successor == 0 ? JsonValue() : JsonValue(status.successor));
  document.add("upgrade_problem", status.upgrade_problem);
  document.add("state_file_problem", status.state_file_problem);
  return document;
}

JsonValue config_document(const RuntimeStatus& status) {
  JsonValue::List changes;
  for (const std::string& change : status.last_changes) changes.emplace_back(change);
  JsonValue document;
  document.add("file", status.config_file);
  document.add("yaml", show_config(*status.config, status.variables.get()));
  document.add("changes", std::move(changes));
  return document;
}

/// Shows how the `discover` of a pool fares; null: it has none.
JsonValue discovery_document(const RuntimeView& view, const std::string& pool) {
  const auto& all = view.status->discovery;
  const auto found = std::ranges::find(all, pool, &DiscoveryStatus::pool);
  if (found == all.end()) return {};
  JsonValue document;
  document.add("backends", found->backends);
  document.add("age_seconds",
               found->last_good
                   ? JsonValue(seconds_of(std::max(view.now - *found->last_good, Duration{})))
                   : JsonValue());
  document.add("problem", text_or_null(found->problem));
  return document;
}

JsonValue::List pools_document(const RuntimeView& view) {
  const Config& config = *view.status->config;
  const LimitUse* const limit_use = view.status->pool_set->limit_use();
  JsonValue::List pools;
  for (const PoolSet::PoolEntry& pool : view.status->pool_set->pools()) {
    const PoolState& state = *pool.state;
    JsonValue backends;
    backends.add("up", state.available(view.now));
    backends.add("total", state.backends().size());
    JsonValue document;
    document.add("name", state.config().name);
    document.add("unavailable", text_or_null(why_unavailable(state.backends(), view.now)));
    document.add("picker", state.config().picker.name);
    document.add("waiting", state.queue().waiting);
    document.add("in_flight", state.in_flight());
    document.add("backends", std::move(backends));
    document.add("saturation", state.saturation_ratio());
    const Affinity* const affinity = state.affinity();
    document.add("sessions", affinity ? JsonValue(affinity->stats().sessions) : JsonValue());
    document.add("subsets", subsets_document(state));
    document.add("discovery", discovery_document(view, state.config().name));
    document.add("scheduler", scheduler_document(state));
    const LimitTable budget(config, state.config());
    document.add("budget", limits_document(budget.of_all(), limit_use));
    pools.push_back(std::move(document));
  }
  return pools;
}

JsonValue::List backends_document(const RuntimeView& view, const BackendStateHistory& history) {
  JsonValue::List backends;
  const auto& pools = view.status->pool_set->pools();
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const std::size_t count = pools[i].state->backends().size();
    for (std::size_t j = 0; j < count; ++j) {
      backends.push_back(backend_document(view, history, i, j));
    }
  }
  return backends;
}

JsonValue backend_document(const RuntimeView& view, const BackendStateHistory& history,
                           std::size_t pool_index, std::size_t backend_index) {
  const PoolState& pool = *view.status->pool_set->pools()[pool_index].state;
  const PoolConfig& config = view.status->config->pools[pool_index];
  const Backend& backend = *pool.backends()[backend_index];
  const BackendSpec& spec = backend.spec();
  const SharedBackend& shared = backend.shared();
  const BackendStatus* monitored = view.monitored->find(pool.config().name, spec.id);

  JsonValue::List models;
  const bool listed = monitored != nullptr && monitored->models != nullptr;
  for (const std::string& model : listed ? *monitored->models : config.models) {
    models.emplace_back(model);
  }
  JsonValue labels = JsonValue::Object();
  for (const auto& [name, value] : spec.config.labels) labels.add(name, value);
  const RecentSummary recent = shared.stats.recent_summary(view.now);
  JsonValue latency;
  latency.add("ttft_seconds", seconds_or_null(recent.first_byte.median));
  latency.add("ttft_p99_seconds", seconds_or_null(recent.first_byte.p99));
  latency.add("tpot_seconds", seconds_or_null(recent.per_token.median));
  latency.add("tpot_p99_seconds", seconds_or_null(recent.per_token.p99));
  latency.add("e2e_seconds", seconds_or_null(recent.total.median));
  latency.add("e2e_p99_seconds", seconds_or_null(recent.total.p99));
  latency.add("failures_per_second", recent.failures_per_second);

  JsonValue document;
  document.add("id", spec.id);
  document.add("pool", pool.config().name);
  document.add("address", spec.address);
  document.add("engine", monitored == nullptr ? config.engine : monitored->engine);
  document.add("models", std::move(models));
  document.add("zone", spec.config.zone);
  document.add("labels", std::move(labels));
  document.add("weight", spec.config.weight);
  document.add("standby", spec.config.standby);
  document.add("state", state_of(backend, view.now));
  document.add("since", text_of(history.since(pool_index, backend_index)));
  const auto drain_end = view.status->drain_ends.find({pool.config().name, spec.id});
  std::string reason = reason_of(pool, backend, monitored, view.now);
  if (drain_end != view.status->drain_ends.end()) reason += " until " + text_of(drain_end->second);
  document.add("reason", text_or_null(reason));
  document.add("in_flight", shared.slots.in_flight());
  document.add("replaced_in_flight", replaced_in_flight(*view.status, pool.config().name, backend));
  // A request that waits in our queue waits for any backend of the pool; how many wait inside this
  // one, only its engine knows.
  document.add("waiting", shared.signals.values().waiting);
  document.add("picks_total", shared.slots.picks_total());
  document.add("errors_total", shared.stats.errors_total());
  document.add("latency", std::move(latency));
  document.add("slow", slowness_document(shared.findings.slowness()));
  document.add("polled", polled_document(monitored, shared.signals, view.now));
  document.add("engine_state", engine_document(shared.signals.engine()));
  document.add("forecast", forecast_document(pool, backend, view.now));
  return document;
}

}  // namespace evenkeel
