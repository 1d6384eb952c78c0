// How long a backend is expected to take to its first byte, and how far it is trusted.
#pragma once

#include <algorithm>

#include "balance/presumed.h"
#include "evenkeel/balance/load.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

/// The time to the first byte of those who have answered lately; of the others, the (harmonic) mean
/// of the pool, which the average of one who is not asked drifts to as well:
///
///   expected = mean + (average - mean) * samples / (samples + 3) * 15 s / (15 s + age)
///
/// So nobody is left aside for ever for what was true once, and one lucky answer makes no
/// favourite. The mean is harmonic because one server in trouble must not make the pool look slow.
///
/// Thread: one worker's own.
class ExpectedLatency {
 public:
  /// In seconds.
  double operator()(const PeakAverage& pace, Instant now) {
    const double samples = pace.samples();
    if (samples == 0) return 1 / per_second_.value();
    const double average = pace.seconds();
    per_second_(1 / average);
    const double mean = 1 / per_second_.value();
    const double known = samples / (samples + doubt);
    const double recent = memory / (memory + seconds_of(pace.age(now)));
    return mean + (average - mean) * known * recent;
  }

 private:
  static constexpr double doubt = 3;
  static constexpr double memory = 15;

  Presumed per_second_{1};
};

/// What a request more costs on one who is new, over what it costs on others: until it has
/// answered, its first requests count for many. A server that comes back is not run over.
///
///   1 + in_flight / (1 + samples)
inline double newness(const Load& load) {
  return 1 + load.in_flight() / (1.0 + load.pace().samples());
}

}  // namespace evenkeel
