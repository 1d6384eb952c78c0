// The time to the first byte that a backend is expected to need.
#pragma once

#include <algorithm>

#include "evenkeel/backend/shared_backend.h"
#include "evenkeel/base/clock.h"
#include "picker/mean_fallback.h"

namespace evenkeel {

/// A backend's average latency, drawn towards the pool's mean while its samples are few or old:
///
///   confidence = samples / (samples + 3) * 60 s / (60 s + age)
///   expected   = mean + (average - mean) * confidence                  if average <= mean,
///                1 / ((1 - confidence) / mean + confidence / average)  otherwise
///
/// samples and age as in PeakEwma. One fast response does not attract all requests, and one slow
/// response does not exclude a backend for ever: after a response of 20 s it is picked again within
/// seconds if the others are busy. The mean is the harmonic one, so a backend in trouble does not
/// make the pool look slow.
///
/// An idle backend that can be connected is due for a trial, with an expected latency of 0, before
/// its first response and again when a slow average has grown old: after a minute times average /
/// mean. Without trials a pool with one request at a time would stay with whichever backend
/// responded first.
///
/// Thread: one worker's own.
class ExpectedLatency {
 public:
  /// The time in seconds.
  double operator()(const SharedBackend& shared, Instant now) {
    const PeakEwma& latency = shared.stats.latency();
    const double samples = latency.samples();
    const bool idle = shared.slots.in_flight() == 0 && shared.state.serving();
    if (samples == 0) return idle ? 0 : 1 / speed_.value();
    const double average = latency.seconds();
    if (average == 0) return 1 / speed_.value();  // it responded, but not to a valid request
    if (samples >= prior_samples) speed_(1 / average);
    const double mean = 1 / speed_.value();
    const double age = seconds_of(latency.age(now));
    const double confidence =
        samples / (samples + prior_samples) * age_scale_seconds / (age_scale_seconds + age);
    if (average <= mean) return mean + (average - mean) * confidence;
    if (idle && age * mean > age_scale_seconds * average) return 0;
    return 1 / ((1 - confidence) / mean + confidence / average);
  }

 private:
  static constexpr double prior_samples = 3;
  static constexpr double age_scale_seconds = 60;

  MeanFallback speed_{1};  // reciprocal latency, 1/s
};

/// Factor on the cost of a backend with few samples, which keeps a new or returning backend from a
/// burst of requests before its first response:
///
///   1 + in_flight / (1 + samples)
inline double warmup_penalty(const SharedBackend& shared) {
  return 1 + shared.slots.in_flight() / (1.0 + shared.stats.latency().samples());
}

}  // namespace evenkeel
