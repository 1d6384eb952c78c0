// Estimates the requests on a backend, including those of other clients.
//
//   depth = in_flight + freshness * (polled - in_flight_at_poll)
//
// polled is the engine's own count, running + waiting, at the last poll. in_flight is what this
// process has in flight now, in_flight_at_poll what it had then. Their difference is what this
// process has sent and finished since. polled - in_flight_at_poll is what other clients have sent,
// minus the responses that the engine has finished and that clients are still reading. freshness is
// 1 up to an age of two seconds and falls to 0 at ten. Without a sample, depth is in_flight.
//
// If an engine reports only one of the two counts, polled is a lower bound, so polled -
// in_flight_at_poll counts only if it is positive.
//
// Source: the correction is Prequal's (Wydrowski et al., NSDI 2024), which adds its own requests
// since the probe. AIBrix found polled counts alone useless during bursts.
#pragma once

#include <algorithm>
#include <cmath>

#include "evenkeel/backend/shared_backend.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Weight of a sample by its age: 1 up to 2 s, then linear down to 0 at 10 s.
inline double freshness(Duration age) {
  constexpr double fresh = 2;
  constexpr double stale = 10;
  return std::clamp((stale - seconds_of(age)) / (stale - fresh), 0.0, 1.0);
}

/// The depth by the formula above, in requests; never negative.
inline double estimated_queue_depth(const SharedBackend& shared, Instant now) {
  const double in_flight = shared.slots.in_flight();
  const std::optional<Duration> age = shared.signals.age(now);
  if (!age) return in_flight;
  const LoadSample values = shared.signals.values();
  const bool has_running = !std::isnan(values.running);
  const bool has_waiting = !std::isnan(values.waiting);
  if (!has_running && !has_waiting) return in_flight;

  const double polled = (has_running ? values.running : 0) + (has_waiting ? values.waiting : 0);
  double others = polled - shared.signals.in_flight_at_poll();
  if (!has_running || !has_waiting) others = std::max(others, 0.0);
  return std::max(in_flight + freshness(*age) * others, 0.0);
}

}  // namespace evenkeel
