#include "server/overview_source.h"

#include <algorithm>

#include "server/backend_state.h"
#include "server/lookout.h"

namespace evenkeel {
namespace {

PolledReading polled(const Signals& signals, Instant now) {
  const SignalValues values = signals.values();
  PolledReading reading{.running = values.running,
                        .waiting = values.waiting,
                        .kv_cache_ratio = values.kv_cache_ratio,
                        .gpu_utilization_ratio = values.gpu_utilization_ratio,
                        .gpu_memory_used_bytes = values.gpu_memory_used_bytes,
                        .gpu_memory_total_bytes = values.gpu_memory_total_bytes};
  if (const auto age = signals.age(now)) reading.age_seconds = seconds_of(*age);
  return reading;
}

}  // namespace

Readings OverviewSource::read() {
  Readings readings;
  for (const Fleet::Member& pool : overview_.fleet->pools()) {
    for (const BackendPtr& backend : pool.state->backends()) {
      readings.backends.push_back(read(pool.state->spec().name, *backend));
    }
  }
  for (const auto& worker : *overview_.workers) {
    readings.loop_lag = std::max(readings.loop_lag, worker->loop().take_longest_turn());
  }
  if (overview_.access_log != nullptr) {
    readings.access_log_dropped = overview_.access_log->dropped();
  }
  readings.config_reload_ok = overview_.reload_problems.empty();
  readings.config_loaded = overview_.loaded_at;
  return readings;
}

BackendReading OverviewSource::read(const std::string& pool, const Backend& backend) const {
  const Instant now = Clock::now();
  const Load& load = backend.load();
  const std::uint32_t index = overview_.sheets->names().backend(pool, backend.id());
  BackendReading reading{.pool = pool,
                         .backend = backend.id(),
                         .state = state_of(backend, now),
                         .up = load.open() && !load.avoided(now),
                         .in_flight = load.in_flight(),
                         .picks = load.picks_total(),
                         .totals = overview_.sheets->backend_totals(index),
                         .polled = polled(load.signals(), now)};
  for (int fault = 0; fault < fault_count; ++fault) {
    reading.errors[static_cast<std::size_t>(fault)] = load.errors_total(static_cast<Fault>(fault));
  }
  const Watched* watched =
      overview_.lookout == nullptr ? nullptr : overview_.lookout->find(pool, backend.id());
  if (watched != nullptr && watched->health.state != HealthState::unchecked) {
    for (std::size_t result = 0; result < check_result_count; ++result) {
      reading.checks.emplace_back(word_of(static_cast<CheckResult>(result)),
                                  watched->health.checks[result]);
    }
  }
  return reading;
}

}  // namespace evenkeel
