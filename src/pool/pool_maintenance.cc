#include "pool/pool_maintenance.h"

#include <algorithm>
#include <cmath>

#include "evenkeel/pool/pool_load.h"
#include "pool/admission.h"

namespace evenkeel {
namespace {

// A limit in units of significant_latency_rise: at most half as many backends as serve are added.
constexpr double max_latency_rise = 1.5;

/// True if the backend can serve, unless it is on standby.
bool ready(const Backend& backend, Instant now) {
  const SharedBackend& shared = backend.shared();
  return shared.state.other_reasons(OutOfRotation::standby) == 0 && !shared.state.unreachable(now);
}

/// True if the backend is down; one that is starting counts only while requests queue.
bool down(const Backend& backend, bool has_queue, Instant now) {
  const SharedBackend& shared = backend.shared();
  const bool starts = shared.state.is_out(OutOfRotation::starting) &&
                      !shared.state.is_out(OutOfRotation::unhealthy);
  return !ready(backend, now) && (has_queue || !starts);
}

/// Mean time to the first byte over the backends in service that respond, in seconds. NaN while the
/// pool is nearly idle: then one long prompt would dominate it.
double first_byte_seconds(const PoolState& pool, Instant now) {
  constexpr double few_requests = 2;  // in flight on each backend
  constexpr Duration lately = std::chrono::seconds(2);
  constexpr std::uint32_t few_samples = 4;
  constexpr std::uint64_t few_in_all = 60;
  double sum = 0;
  double known = 0;
  double in_flight = 0;
  std::uint64_t samples = 0;
  for (const auto& backend : pool.backends()) {
    if (!in_service(*backend, now)) continue;
    const PeakEwma& latency = backend->stats().latency();
    if (latency.samples() < few_samples || latency.age(now) > lately) continue;
    sum += latency.seconds();
    known += 1;
    samples += latency.samples();
    in_flight += backend->slots().in_flight();
  }
  return samples >= few_in_all && in_flight >= few_requests * known ? sum / known
                                                                    : LoadSample::unknown;
}

PoolDemand sample_load(const PoolState& pool, double latency_rise, Instant now) {
  PoolDemand sample;
  const Admission& admission = pool.admission();
  const bool schedules = pool.scheduled() != nullptr;
  const double busy_ratio = schedules ? pool.scheduled()->stats().busy_ratio : 0;
  // A scheduler holds requests also where there are enough backends.
  const bool is_busy = !schedules || busy_ratio >= pool.config().standby.enter;
  sample.has_queue = admission.has_waiting_for_slots() || (is_busy && admission.has_waiting());
  const double waiting = sample.has_queue ? pool.queue().waiting : 0;
  sample.outstanding = pool.in_flight() + static_cast<std::uint64_t>(waiting);
  for (const auto& backend : pool.backends()) {
    if (backend->spec().config.standby) {
      sample.standby += ready(*backend, now);
    } else {
      sample.active += in_service(*backend, now);
      sample.down += down(*backend, sample.has_queue, now);
    }
  }
  const PoolLoad load = load_of(pool, waiting, pool.config().standby.enter, now);
  sample.in_service = load.in_service;
  sample.load = std::fmax(load.used, busy_ratio * sample.in_service);  // fmax ignores NaN
  if (latency_rise >= significant_latency_rise) {
    sample.load = std::max(sample.load,
                           pool.config().standby.enter * sample.in_service *
                               std::min(latency_rise / significant_latency_rise, max_latency_rise));
  }
  return sample;
}

/// True if the pool has standby backends. One that a reload made a regular one goes into rotation.
bool has_standby(const PoolState& pool) {
  bool any = false;
  for (const auto& backend : pool.backends()) {
    any = any || backend->spec().config.standby;
    if (!backend->spec().config.standby && backend->state().is_out(OutOfRotation::standby)) {
      backend->put_back(OutOfRotation::standby);
    }
  }
  return any;
}

}  // namespace

void PoolMaintenance::tick(const PoolState& pool, Instant now) {
  control_standby(pool, now);
  slow_start_.tick(pool, now);
  silence_detector_.tick(pool, now);
  slowness_detector_.tick(pool, now);
  if (pool.config().picker.weights == WeightSource::observed)
    weight_learner_.tick(pool.backends(), now);
}

void PoolMaintenance::control_standby(const PoolState& pool, Instant now) {
  if (!has_standby(pool)) return;

  const double latency_rise = latency_rise_.tick(first_byte_seconds(pool, now), now);
  std::uint32_t left =
      standby_controller_.tick(sample_load(pool, latency_rise, now), pool.config().standby, now);
  // Those in service stay before others enter; among equals the order of the file decides.
  for (const bool serving : {true, false}) {
    for (const auto& backend : pool.backends()) {
      if (!backend->spec().config.standby || in_service(*backend, now) != serving) continue;
      const bool serves = left > 0 && ready(*backend, now);
      left -= serves;
      if (!serves) backend->state().take_out(OutOfRotation::standby);
      if (serves && !serving) backend->put_back(OutOfRotation::standby);
    }
  }
}

}  // namespace evenkeel
