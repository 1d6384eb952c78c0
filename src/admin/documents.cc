#include "admin/documents.h"

#include <array>
#include <cmath>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/balance/unavailable.h"
#include "evenkeel/upstream/backend_monitor.h"

namespace evenkeel {
namespace {

namespace json = boost::json;

std::string rfc3339(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text;
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text.data(), size};
}

/// Unknown is null.
json::value seconds_or_null(const std::optional<Duration>& duration) {
  return duration ? json::value(seconds_of(*duration)) : json::value();
}

json::value number_or_null(double value) {
  return std::isnan(value) ? json::value() : json::value(value);
}

json::value text_or_null(const std::string& text) {
  return text.empty() ? json::value() : json::value(text);
}

json::object source_document(const PollRecord& record) {
  json::object source;
  source["state"] = to_string(record.state);
  source["reason"] = text_or_null(record.reason);
  source["interval_seconds"] = seconds_of(record.interval);
  source["took_seconds"] = record.asked ? json::value(seconds_of(record.took)) : json::value();
  return source;
}

json::object polled_document(const BackendStatus* monitored, const Signals& signals, Instant now) {
  const LoadSample values = signals.values();
  json::object polled;
  polled["age_seconds"] = seconds_or_null(signals.age(now));
  polled["running"] = number_or_null(values.running);
  polled["waiting"] = number_or_null(values.waiting);
  polled["kv_cache_ratio"] = number_or_null(values.kv_cache_ratio);
  polled["gpu_utilization_ratio"] = number_or_null(values.gpu_utilization_ratio);
  polled["gpu_memory_used_bytes"] = number_or_null(values.gpu_memory_used_bytes);
  polled["gpu_memory_total_bytes"] = number_or_null(values.gpu_memory_total_bytes);
  const PollStatus* status =
      monitored == nullptr || !monitored->polled ? nullptr : &*monitored->polled;
  const bool engine_is_polled =
      status != nullptr &&
      (status->engine.state != PollRecord::State::silent || !status->engine.reason.empty());
  polled["engine"] =
      engine_is_polled ? json::value(source_document(status->engine)) : json::value();
  polled["gpu_exporter"] = status != nullptr && status->gpu_exporter
                               ? json::value(source_document(*status->gpu_exporter))
                               : json::value();
  return polled;
}

/// What the engine says of itself.
json::object engine_document(const EngineState& engine) {
  json::object document;
  document["restarts_total"] = engine.restarts();
  document["kv_cache_tokens"] = number_or_null(engine.kv_tokens());
  document["step_tokens"] = number_or_null(engine.step_tokens());
  const auto tokens = engine.prefix_cache();
  document["prefix_queried_tokens_total"] = tokens ? json::value(tokens->queried) : json::value();
  document["prefix_hit_tokens_total"] = tokens ? json::value(tokens->hit) : json::value();
  const LoadedAdapters* const adapters = engine.adapters();
  document["lora_adapters"] = adapters == nullptr ? json::value() : json::value(adapters->size());
  return document;
}

/// How many requests the process that this one has replaced has on a backend. Null: not known, or
/// that process does not know of the backend's drain yet and may send it more.
json::value replaced_in_flight(const RuntimeStatus& status, const std::string& pool,
                               const Backend& backend) {
  if (!status.replaced) return 0;
  const ReplacedProcess& replaced = *status.replaced;
  const ReplacedProcess::Backend key(pool, backend.id());
  const bool drains = backend.load().is_out(OutOfRotation::draining);
  if (!replaced.reported || (drains && !replaced.drained.contains(key))) return nullptr;
  const auto found = replaced.in_flight.find(key);
  return found == replaced.in_flight.end() ? 0 : found->second;
}

/// Returns null if the backend is not slow.
json::value slowness_document(Slowness slowness) {
  if (slowness.ratio == 0) return nullptr;
  return json::object{{"part", to_string(slowness.part)}, {"ratio", slowness.ratio}};
}

/// Null if no scheduler places the requests of its pool.
json::value forecast_document(const PoolState& pool, const Backend& backend, Instant now) {
  const auto forecast = pool.forecast(backend, now);
  if (!forecast) return nullptr;
  return json::object{{"rung", to_string(forecast->rung)},
                      {"wait_seconds", seconds_of(forecast->wait)}};
}

/// Null without a shadow picker.
json::value shadow_document(const PoolState& pool, const SchedulerStats& stats) {
  if (!stats.shadow) return nullptr;
  json::object document;
  document["picker"] = pool.spec().picker.shadow_picker->name;
  document["compared_total"] = stats.shadow->compared_total;
  document["agreed_total"] = stats.shadow->agreed_total;
  document["unavailable_total"] = stats.shadow->unavailable_total;
  document["regret_seconds_total"] = seconds_of(stats.shadow->regret_sum);
  document["gain_seconds_total"] = seconds_of(stats.shadow->gain_sum);
  return document;
}

/// Null if no scheduler places the requests of the pool.
json::value scheduler_document(const PoolState& pool) {
  const auto stats = pool.scheduler_stats();
  if (!stats) return nullptr;
  json::object document;
  document["placed_total"] = stats->placed_total;
  document["refused_total"] = stats->refused_total;
  document["first_tokens_total"] = stats->first_tokens_total;
  document["predicted_ttft_seconds_total"] = seconds_of(stats->predicted_ttft_sum);
  document["ttft_seconds_total"] = seconds_of(stats->ttft_sum);
  document["ttft_error_seconds_total"] = seconds_of(stats->ttft_error_sum);
  document["index_bytes"] = stats->index_bytes;
  document["shadow"] = shadow_document(pool, *stats);
  return document;
}

/// The parts of a pool that a split names by labels.
json::array subsets_document(const PoolState& pool) {
  json::array subsets;
  for (const Subset& subset : pool.subsets()) {
    if (!subset.spec().is_choice()) continue;
    std::uint64_t in_flight = 0;
    std::uint64_t picks = 0;
    for (const BackendPtr& backend : subset.backends()) {
      in_flight += backend->load().in_flight();
      picks += backend->load().picks_total();
    }
    json::object document;
    document["name"] = subset.name();
    document["backends"] = {{"up", subset.in_rotation()}, {"total", subset.backends().size()}};
    document["in_flight"] = in_flight;
    document["picks_total"] = picks;
    document["fallbacks_total"] = subset.fallbacks();
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

json::object problem_document(const Problem& problem) {
  json::object document;
  document["file"] = problem.file;
  document["line"] = problem.line;
  document["column"] = problem.column;
  document["path"] = problem.path;
  document["message"] = problem.message;
  document["help"] = problem.help;
  document["severity"] = problem.severity == Severity::error ? "error" : "warning";
  return document;
}

json::object status_document(const RuntimeView& view) {
  const RuntimeStatus& status = *view.status;
  std::int64_t in_flight = 0;
  const MetricsRegistry& metrics = *view.runtime.metrics_registry;
  const auto labels = metrics.label_index().view();
  for (std::uint32_t pool = 0; pool < labels.pools.size(); ++pool) {
    in_flight += metrics.in_flight(pool);
  }
  json::array errors;
  for (const Problem& problem : status.reload_problems) errors.push_back(problem_document(problem));
  json::object config;
  config["file"] = status.config_file;
  config["hash"] = status.config_hash;
  config["loaded_at"] = rfc3339(status.loaded_at);
  config["last_reload_ok"] = status.reload_problems.empty();
  config["errors"] = std::move(errors);

  json::object document;
  document["version"] = status.version;
  document["uptime_seconds"] = seconds_of(view.now - status.started);
  document["config"] = std::move(config);
  document["workers"] = view.runtime.loops.size();
  document["cpu_quota"] = status.cpu_quota ? json::value(*status.cpu_quota) : json::value();
  document["busy_polling"] = status.config->busy_polling && status.may_busy_poll;
  document["connections"] = view.runtime.connections();
  document["requests_in_flight"] = in_flight;
  document["draining"] = status.draining;
  document["taken_over_by"] = status.successor == 0 ? json::value() : json::value(status.successor);
  document["upgrade_problem"] = status.upgrade_problem;
  document["state_file_problem"] = status.state_file_problem;
  return document;
}

json::array pools_document(const RuntimeView& view) {
  json::array pools;
  for (const PoolSet::PoolEntry& pool : view.status->pool_set->pools()) {
    const PoolState& state = *pool.state;
    json::object backends;
    backends["up"] = state.available(view.now);
    backends["total"] = state.backends().size();
    json::object document;
    document["name"] = state.spec().name;
    document["unavailable"] = text_or_null(why_unavailable(state.backends(), view.now));
    document["picker"] = state.spec().picker.name;
    document["waiting"] = state.queue().waiting;
    document["in_flight"] = state.in_flight();
    document["backends"] = std::move(backends);
    document["saturation"] = state.saturation_ratio();
    const auto affinity = state.affinity_stats();
    document["sessions"] = affinity ? json::value(affinity->sessions) : json::value();
    document["subsets"] = subsets_document(state);
    document["scheduler"] = scheduler_document(state);
    pools.push_back(std::move(document));
  }
  return pools;
}

json::array backends_document(const RuntimeView& view, const BackendStateHistory& history) {
  json::array backends;
  const auto& pools = view.status->pool_set->pools();
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const std::size_t count = pools[i].state->backends().size();
    for (std::size_t j = 0; j < count; ++j) {
      backends.push_back(backend_document(view, history, i, j));
    }
  }
  return backends;
}

json::object backend_document(const RuntimeView& view, const BackendStateHistory& history,
                              std::size_t pool_index, std::size_t backend_index) {
  const PoolState& pool = *view.status->pool_set->pools()[pool_index].state;
  const PoolConfig& config = view.status->config->pools[pool_index];
  const Backend& backend = *pool.backends()[backend_index];
  const BackendSpec& spec = backend.spec();
  const Load& load = backend.load();
  const BackendStatus* monitored = view.monitored->find(pool.spec().name, spec.id);

  json::array models;
  const bool listed = monitored != nullptr && monitored->models != nullptr;
  for (const std::string& model : listed ? *monitored->models : config.models) {
    models.emplace_back(model);
  }
  json::object labels;
  for (const auto& [name, value] : spec.labels) labels[name] = value;
  const RecentSummary recent = load.recent_summary(view.now);
  json::object latency;
  latency["ttft_seconds"] = seconds_or_null(recent.first_byte.median);
  latency["ttft_p99_seconds"] = seconds_or_null(recent.first_byte.p99);
  latency["tpot_seconds"] = seconds_or_null(recent.per_token.median);
  latency["tpot_p99_seconds"] = seconds_or_null(recent.per_token.p99);
  latency["e2e_seconds"] = seconds_or_null(recent.total.median);
  latency["e2e_p99_seconds"] = seconds_or_null(recent.total.p99);
  latency["failures_per_second"] = recent.failures_per_second;

  json::object document;
  document["id"] = spec.id;
  document["pool"] = pool.spec().name;
  document["address"] = spec.address;
  document["engine"] = monitored == nullptr ? config.engine : monitored->engine;
  document["models"] = std::move(models);
  document["zone"] = spec.zone;
  document["labels"] = std::move(labels);
  document["weight"] = spec.weight;
  document["standby"] = spec.standby;
  document["state"] = state_of(backend, view.now);
  document["since"] = rfc3339(history.since(pool_index, backend_index));
  const auto drain_end = view.status->drain_ends.find({pool.spec().name, spec.id});
  std::string reason = reason_of(pool, backend, monitored, view.now);
  if (drain_end != view.status->drain_ends.end()) reason += " until " + rfc3339(drain_end->second);
  document["reason"] = text_or_null(reason);
  document["in_flight"] = load.in_flight();
  document["replaced_in_flight"] = replaced_in_flight(*view.status, pool.spec().name, backend);
  // A request that waits in our queue waits for any backend of the pool; how many wait inside this
  // one, only its engine knows.
  document["waiting"] = number_or_null(load.signals().values().waiting);
  document["picks_total"] = load.picks_total();
  document["errors_total"] = load.errors_total();
  document["latency"] = std::move(latency);
  document["slow"] = slowness_document(load.slowness());
  document["polled"] = polled_document(monitored, load.signals(), view.now);
  document["engine_state"] = engine_document(load.signals().engine());
  document["forecast"] = forecast_document(pool, backend, view.now);
  return document;
}

}  // namespace evenkeel
