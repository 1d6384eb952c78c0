#include "evenkeel/state/observed_backends.h"

#include <algorithm>

namespace evenkeel {

SavedState::ObservedBackends observe_backends(const PoolSet& pool_set,
                                              const MonitorSnapshot& monitored, Instant now) {
  SavedState::ObservedBackends observed;
  for (const PoolSet::PoolEntry& entry : pool_set.pools()) {
    const std::string& pool = entry.state->config().name;
    for (const BackendPtr& backend : entry.state->backends()) {
      SavedState::Observed known{.learned = entry.state->learned(*backend, now)};
      if (known.learned.latency_age > max_observed_age) {
        known.learned.latency_samples = 0;
        known.learned.latency_seconds = 0;
        known.learned.latency_age = {};
      }
      const BackendStatus* const status = monitored.find(pool, backend->id());
      known.down = status != nullptr && status->health.state == HealthState::down;
      if (known != SavedState::Observed{}) observed[{pool, backend->id()}] = known;
    }
  }
  return observed;
}

SavedState::ObservedBackends aged(SavedState::ObservedBackends observed, Duration passed) {
  if (passed < Duration{} || passed > max_observed_age) return {};
  for (auto& [key, known] : observed) {
    known.learned.latency_age += passed;
    known.learned.ejected_for = std::max(known.learned.ejected_for - passed, Duration{});
  }
  return observed;
}

void restore_backends(const SavedState::ObservedBackends& observed, const PoolSet& pool_set,
                      Instant now) {
  for (const PoolSet::PoolEntry& entry : pool_set.pools()) {
    for (const BackendPtr& backend : entry.state->backends()) {
      const auto found = observed.find({entry.state->config().name, backend->id()});
      if (found != observed.end()) entry.state->restore(*backend, found->second.learned, now);
    }
  }
}

}  // namespace evenkeel
