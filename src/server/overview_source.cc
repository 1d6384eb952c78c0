#include "server/overview_source.h"

#include <algorithm>

#include "server/backend_state.h"

namespace evenkeel {

Readings OverviewSource::read() {
  Readings readings;
  const Instant now = Clock::now();
  for (const Fleet::Member& pool : overview_.fleet->pools()) {
    const std::string& name = pool.state->spec().name;
    for (const BackendPtr& backend : pool.state->backends()) {
      const Load& load = backend->load();
      BackendReading reading{.pool = name,
                             .backend = backend->id(),
                             .state = state_of(*backend, now),
                             .up = !load.avoided(now),
                             .in_flight = load.in_flight(),
                             .picks = load.picks_total()};
      for (int fault = 0; fault < fault_count; ++fault) {
        reading.errors[static_cast<std::size_t>(fault)] =
            load.errors_total(static_cast<Fault>(fault));
      }
      const std::uint32_t index = overview_.sheets->names().backend(name, backend->id());
      reading.totals = overview_.sheets->backend_totals(index);
      readings.backends.push_back(std::move(reading));
    }
  }
  for (const auto& worker : *overview_.workers) {
    readings.loop_lag = std::max(readings.loop_lag, worker->loop().take_longest_turn());
  }
  if (overview_.access_log != nullptr) {
    readings.access_log_dropped = overview_.access_log->dropped();
  }
  readings.config_loaded = overview_.loaded_at;
  return readings;
}

}  // namespace evenkeel
