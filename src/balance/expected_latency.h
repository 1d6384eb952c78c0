// How long a backend is expected to take to its first byte, and how far it is trusted.
#pragma once

#include <algorithm>

#include "balance/mean_fallback.h"
#include "evenkeel/balance/load.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

/// The time to the first byte of those who have answered lately; of the others, the mean of the
/// pool, to which the average of one who is not asked drifts as well:
///
///   trust    = samples / (samples + 3) * 60 s / (60 s + age)
///   expected = mean + (average - mean) * trust              where it is faster than the mean,
///              1 / ((1 - trust) / mean + trust / average)   where it is slower
///
/// So one lucky answer makes no favourite, and nobody is left aside for ever for what was true
/// once: one that took twenty seconds is tried again within some seconds, where the others are
/// busy. The mean is that of the speeds: one server in trouble does not make the pool look slow.
///
/// Thread: one worker's own.
class ExpectedLatency {
 public:
  /// In seconds.
  double operator()(const PeakEwma& latency, Instant now) {
    const double samples = latency.samples();
    if (samples == 0) return 1 / speed_.value();
    const double average = latency.seconds();
    if (samples >= prior_samples) speed_(1 / average);
    const double mean = 1 / speed_.value();
    const double confidence = samples / (samples + prior_samples) * age_scale_seconds /
                              (age_scale_seconds + seconds_of(latency.age(now)));
    if (average <= mean) return mean + (average - mean) * confidence;
    return 1 / ((1 - confidence) / mean + confidence / average);
  }

 private:
  static constexpr double prior_samples = 3;
  static constexpr double age_scale_seconds = 60;

  MeanFallback speed_{1};  // first bytes a second
};

/// What a request more costs on one who is new, over what it costs on others: until it has
/// answered, its first requests count for many. A server that comes back is not run over.
///
///   1 + in_flight / (1 + samples)
inline double warmup_penalty(const Load& load) {
  return 1 + load.in_flight() / (1.0 + load.latency().samples());
}

}  // namespace evenkeel
