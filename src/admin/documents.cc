#include "admin/documents.h"

#include <array>
#include <cmath>
#include <ctime>
#include <optional>
#include <string_view>

#include "evenkeel/base/json.h"
#include "evenkeel/upstream/backend_monitor.h"

namespace evenkeel {
namespace {

std::string rfc3339(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text;
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text.data(), size};
}

std::optional<double> seconds_or_null(const std::optional<Duration>& duration) {
  if (!duration) return std::nullopt;
  return seconds_of(*duration);
}

std::optional<double> finite(double value) {
  if (std::isnan(value)) return std::nullopt;
  return value;
}

/// How one source of metrics was read last.
void write_source(JsonWriter& json, const PollRecord& record) {
  json.field("state", to_string(record.state)).key("reason");
  record.reason.empty() ? json.null() : json.value(record.reason);
  json.field("interval_seconds", seconds_of(record.interval))
      .field("took_seconds", record.asked ? std::optional(seconds_of(record.took)) : std::nullopt);
}

void write_polled(JsonWriter& json, const BackendStatus* backend_status, const Signals& signals,
                  Instant now) {
  const SignalValues values = signals.values();
  json.begin_object()
      .field("age_seconds", seconds_or_null(signals.age(now)))
      .field("running", finite(values.running))
      .field("waiting", finite(values.waiting))
      .field("kv_cache_ratio", finite(values.kv_cache_ratio))
      .field("gpu_utilization_ratio", finite(values.gpu_utilization_ratio))
      .field("gpu_memory_used_bytes", finite(values.gpu_memory_used_bytes))
      .field("gpu_memory_total_bytes", finite(values.gpu_memory_total_bytes))
      .key("engine");
  const PollStatus* polled =
      backend_status == nullptr || !backend_status->polled ? nullptr : &*backend_status->polled;
  if (polled == nullptr ||
      (polled->engine.state == PollRecord::State::silent && polled->engine.reason.empty())) {
    json.null();
  } else {
    json.begin_object();
    write_source(json, polled->engine);
    json.end_object();
  }
  json.key("gpu_exporter");
  if (polled == nullptr || !polled->gpu_exporter) {
    json.null();
  } else {
    json.begin_object();
    write_source(json, *polled->gpu_exporter);
    json.end_object();
  }
  json.end_object();
}

void write_backend(JsonWriter& json, const RuntimeAccess& runtime,
                   const BackendStateHistory& history, std::size_t pool_index,
                   std::size_t backend_index) {
  const auto status = runtime.status->snapshot();
  const PoolState& pool = *status->pool_set->pools()[pool_index].state;
  const PoolConfig& config = status->config->pools[pool_index];
  const Backend& backend = *pool.backends()[backend_index];
  const BackendSpec& spec = backend.spec();
  const Load& load = backend.load();
  const Instant now = Clock::now();
  const auto monitored = runtime.backend_monitor == nullptr
                             ? std::make_shared<const MonitorSnapshot>()
                             : runtime.backend_monitor->snapshot();
  const BackendStatus* backend_status = monitored->find(pool.spec().name, spec.id);

  json.begin_object()
      .field("id", spec.id)
      .field("pool", pool.spec().name)
      .field("address", spec.address)
      .field("engine", backend_status == nullptr ? config.engine : backend_status->engine)
      .key("models")
      .begin_list();
  const bool listed = backend_status != nullptr && backend_status->models != nullptr;
  for (const std::string& model : listed ? *backend_status->models : config.models)
    json.value(model);
  json.end_list().field("zone", spec.zone).key("labels").begin_object();
  for (const auto& [name, value] : spec.labels) json.field(name, value);
  json.end_object()
      .field("weight", spec.weight)
      .field("standby", spec.standby)
      .field("state", state_of(backend, now))
      .field("since", rfc3339(history.since(pool_index, backend_index)))
      .key("reason");
  const std::string reason = reason_of(backend, backend_status, now);
  reason.empty() ? json.null() : json.value(reason);
  json.field("in_flight", load.in_flight())
      // Whoever waits with us waits for any backend of the pool; with this one, only its engine
      // knows.
      .field("waiting", finite(load.signals().values().waiting))
      .field("picks_total", load.picks_total())
      .field("errors_total", load.errors_total())
      .key("latency")
      .begin_object()
      .field("ttft_seconds", seconds_or_null(load.mean_first_byte()))
      .field("e2e_seconds", seconds_or_null(load.mean_total()))
      .end_object()
      .key("polled");
  write_polled(json, backend_status, load.signals(), now);
  json.end_object();
}

void write_problem(JsonWriter& json, const Problem& problem) {
  json.begin_object()
      .field("file", problem.file)
      .field("line", problem.line)
      .field("column", problem.column)
      .field("path", problem.path)
      .field("message", problem.message)
      .field("help", problem.help)
      .field("severity", problem.severity == Severity::error ? "error" : "warning")
      .end_object();
}

}  // namespace

std::string status_document(const RuntimeAccess& runtime) {
  const auto status = runtime.status->snapshot();
  const std::uint64_t connections = runtime.connections();
  std::int64_t in_flight = 0;
  const auto label_index = runtime.metrics_registry->label_index().view();
  for (std::uint32_t pool = 0; pool < label_index.pools.size(); ++pool) {
    in_flight += runtime.metrics_registry->in_flight(pool);
  }
  JsonWriter json;
  json.begin_object()
      .field("version", status->version)
      .field("uptime_seconds", seconds_of(Clock::now() - status->started))
      .key("config")
      .begin_object()
      .field("file", status->config_file)
      .field("hash", status->config_hash)
      .field("loaded_at", rfc3339(status->loaded_at))
      .field("last_reload_ok", status->reload_problems.empty())
      .key("errors")
      .begin_list();
  for (const Problem& problem : status->reload_problems) write_problem(json, problem);
  json.end_list()
      .end_object()
      .field("workers", std::uint64_t{runtime.loops.size()})
      .field("connections", connections)
      .field("requests_in_flight", in_flight)
      .field("draining", status->draining)
      .end_object();
  return json.take();
}

std::string pools_document(const RuntimeAccess& runtime) {
  const auto status = runtime.status->snapshot();
  const Instant now = Clock::now();
  JsonWriter json;
  json.begin_list();
  for (const PoolSet::PoolEntry& pool : status->pool_set->pools()) {
    const PoolState& state = *pool.state;
    json.begin_object()
        .field("name", state.spec().name)
        .field("picker", state.spec().picker)
        .field("waiting", state.queue().waiting)
        .field("in_flight", state.in_flight())
        .key("backends")
        .begin_object()
        .field("up", std::uint64_t{state.available(now)})
        .field("total", std::uint64_t{state.backends().size()})
        .end_object()
        .field("saturation", state.saturation_ratio())
        .end_object();
  }
  json.end_list();
  return json.take();
}

std::string backends_document(const RuntimeAccess& runtime, const BackendStateHistory& history) {
  const auto status = runtime.status->snapshot();
  JsonWriter json;
  json.begin_list();
  for (std::size_t i = 0; i < status->pool_set->pools().size(); ++i) {
    const std::size_t count = status->pool_set->pools()[i].state->backends().size();
    for (std::size_t j = 0; j < count; ++j) write_backend(json, runtime, history, i, j);
  }
  json.end_list();
  return json.take();
}

std::string backend_document(const RuntimeAccess& runtime, const BackendStateHistory& history,
                             std::size_t pool, std::size_t backend) {
  JsonWriter json;
  write_backend(json, runtime, history, pool, backend);
  return json.take();
}

}  // namespace evenkeel
