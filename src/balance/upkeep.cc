#include "balance/upkeep.h"

#include <algorithm>
#include <cmath>

#include "balance/waiting_line.h"

namespace evenkeel {
namespace {

constexpr double most_slowdown =
    1.5;  // over the great one: half as many spares as there are others

/// It could serve, if it is not a spare that is out of service.
bool ready(const Backend& backend, Instant now) {
  const Load& load = backend.load();
  return load.closures_but(Closure::standby) == 0 && !load.avoided(now);
}

bool in_service(const Backend& backend, Instant now) {
  return ready(backend, now) && !backend.load().closed(Closure::standby);
}

/// One that is starting is not down, unless somebody waits for it.
bool down(const Backend& backend, bool line, Instant now) {
  const Load& load = backend.load();
  const bool starts = load.closed(Closure::starting) && !load.closed(Closure::unhealthy);
  return !ready(backend, now) && (line || !starts);
}

Burden burden_of(const Backend& backend) {
  const Load& load = backend.load();
  const SignalValues values = load.signals().values();
  const double limit = backend.spec().max_in_flight;
  return {.in_flight_ratio = limit > 0 ? load.in_flight() / limit : SignalValues::unknown,
          .kv_cache_ratio = values.kv_cache_ratio,
          .waiting = values.waiting};
}

/// Mean time to the first byte of those in service who answer; NaN while the pool is nearly idle:
/// one long prompt would be all that it says.
double first_byte_seconds(const PoolState& pool, Instant now) {
  constexpr double few_requests = 2;  // in flight on each
  constexpr Duration lately = std::chrono::seconds(2);
  constexpr std::uint32_t few_samples = 4;
  constexpr std::uint64_t few_in_all = 60;
  double sum = 0;
  double known = 0;
  double in_flight = 0;
  std::uint64_t samples = 0;
  for (const auto& backend : pool.backends()) {
    if (!in_service(*backend, now)) continue;
    const PeakAverage& pace = backend->load().pace();
    if (pace.samples() < few_samples || pace.age(now) > lately) continue;
    sum += pace.seconds();
    known += 1;
    samples += pace.samples();
    in_flight += backend->load().in_flight();
  }
  return samples >= few_in_all && in_flight >= few_requests * known ? sum / known
                                                                    : SignalValues::unknown;
}

PoolBurden burden_of(const PoolState& pool, double slowdown, Instant now) {
  PoolBurden burden;
  burden.line = pool.line().occupied();
  const double waiting = burden.line ? pool.queue().waiting : 0;
  burden.carried = pool.in_flight() + static_cast<std::uint64_t>(waiting);
  double known = 0;
  double places = 0;
  for (const auto& backend : pool.backends()) {
    if (backend->spec().standby) {
      burden.spares += ready(*backend, now);
    } else {
      burden.active += in_service(*backend, now);
      burden.down += down(*backend, burden.line, now);
    }
    if (!in_service(*backend, now)) continue;
    burden.in_service += 1;
    places += backend->spec().max_in_flight;
    const double load = load_of(burden_of(*backend), pool.spec().spares.enter);
    if (std::isnan(load)) continue;
    burden.load += load;
    known += 1;
  }
  if (known > 0) burden.load *= burden.in_service / known;
  if (places > 0) burden.load += waiting * burden.in_service / places;
  if (slowdown >= great_slowdown) {
    burden.load = std::max(burden.load, pool.spec().spares.enter * burden.in_service *
                                            std::min(slowdown / great_slowdown, most_slowdown));
  }
  return burden;
}

/// True if there are any. Who was a spare in the file before, and is none now, is in service.
bool has_spares(const PoolState& pool) {
  bool any = false;
  for (const auto& backend : pool.backends()) {
    any = any || backend->spec().standby;
    if (!backend->spec().standby && backend->load().closed(Closure::standby)) {
      backend->reopen(Closure::standby);
    }
  }
  return any;
}

}  // namespace

void Upkeep::turn(const PoolState& pool, Instant now) {
  turn_spares(pool, now);
  if (pool.spec().observed_weights) speeds_.turn(pool.backends(), now);
}

void Upkeep::turn_spares(const PoolState& pool, Instant now) {
  if (!has_spares(pool)) return;

  const double slowdown = slowdown_.turn(first_byte_seconds(pool, now), now);
  std::uint32_t left = standby_.turn(burden_of(pool, slowdown, now), pool.spec().spares, now);
  // Those who serve stay, before others come; the first in the file come first.
  for (const bool serving : {true, false}) {
    for (const auto& backend : pool.backends()) {
      if (!backend->spec().standby || in_service(*backend, now) != serving) continue;
      const bool serves = left > 0 && ready(*backend, now);
      left -= serves;
      if (!serves) backend->load().close(Closure::standby);
      if (serves && !serving) backend->reopen(Closure::standby);
    }
  }
}

}  // namespace evenkeel
