// How many requests stand on a backend, whoever sent them.
//
//   depth = in_flight + faith * (polled - in_flight_at_poll)
//
// The engine's own count (running + waiting) is as old as the last poll; what this process sent and
// finished since then is the difference of its requests in flight. What is left of the correction,
// polled - in_flight_at_poll, is what others sent, less the answers that the engine has given and
// whose clients are still reading. It is believed whole for two seconds, and less and less after
// that; with nothing polled the depth is what this process has in flight.
//
// An engine that tells of one of the two counts gives a lower bound: only an excess counts.
//
// Source: the correction is that of Prequal (Wydrowski et al., NSDI 2024), which adds its own
// requests since the probe; AIBrix found polled counts alone useless in bursts.
#pragma once

#include <algorithm>
#include <cmath>

#include "evenkeel/balance/load.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

/// 1 for what was just heard, 0 for what is too old to say anything.
inline double freshness(Duration age) {
  constexpr double fresh = 2;
  constexpr double stale = 10;
  return std::clamp((stale - seconds_of(age)) / (stale - fresh), 0.0, 1.0);
}

/// Never negative.
inline double estimated_queue_depth(const Load& load, Instant now) {
  const double in_flight = load.in_flight();
  const std::optional<Duration> age = load.signals().age(now);
  if (!age) return in_flight;
  const LoadSample values = load.signals().values();
  const bool runs = !std::isnan(values.running);
  const bool waits = !std::isnan(values.waiting);
  if (!runs && !waits) return in_flight;

  const double polled = (runs ? values.running : 0) + (waits ? values.waiting : 0);
  double others = polled - load.signals().in_flight_at_poll();
  if (!runs || !waits) others = std::max(others, 0.0);
  return std::max(in_flight + freshness(*age) * others, 0.0);
}

}  // namespace evenkeel
