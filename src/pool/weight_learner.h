// Learns the weights of `weights: observed` from the work that each backend completes.
//
//   speed  = responses / time that requests spent there,   over a window of 16 responses and 1 s
//   weight = speed / mean speed of the pool * mean configured weight,   at most 25 % per update
//
// By Little's law, speed is the backend's throughput over its mean number of requests in flight.
// Throughput alone would reinforce itself: a backend with more requests completes more. With these
// weights every backend has the same number of requests in flight. An overloaded backend becomes
// slower and gets less, so the shares settle. Weights stay within 1/16 and 16 times the mean, so
// that every backend gets enough requests to learn from.
//
// For long responses, the time spent is that of all requests in flight, sampled ten times a second,
// because the responses finished so far are the short ones. For short responses it is the sum of
// their durations.
//
// A backend with fewer than 16 responses starts at the mean speed, corrected by the time spent:
// (responses + 4) / (time + 4 / mean speed). The slowest backend, whose first window takes longest,
// is therefore not taken for an average one meanwhile.
//
// Failed responses do not count: failing fast is not speed. A backend that finishes nothing in the
// time in which it used to finish eight responses counts as that slow.
//
// Source: gRPC's client-side weighted round robin (gRFC A58), weight = queries per second /
// utilization; requests in flight take the place of the utilization.
#pragma once

#include <cstdint>
#include <optional>

#include "evenkeel/backend/backend.h"
#include "evenkeel/base/clock.h"
#include "pool/backend_records.h"

namespace evenkeel {

/// Writes BackendFindings::learned_weight. Thread: the control thread's.
class WeightLearner {
 public:
  static constexpr double min_share = 1.0 / 16;  // of the mean
  static constexpr double max_share = 16;
  static constexpr double max_change = 1.25;  // of a weight, per update (once a second)

  /// REQUIRES: called about ten times a second.
  void tick(const Backends& backends, Instant now);

  /// Responses per request-second of a backend; 0: not known yet.
  double learned_speed(const SharedBackend& shared) const;
  /// Continues with the speed that another process has learned.
  void restore_speed(const SharedBackend& shared, double speed, Instant now);

 private:
  /// The current window of one backend, and the result of the previous ones.
  struct Window {
    Instant began;
    std::uint64_t served;
    Duration spent;        // on responses that were served
    double in_flight = 0;  // request-seconds spent, served or not
    double speed = 0;      // responses per request-second; 0: not known yet
  };

  void accumulate(const Backends& backends, Instant now);
  static std::optional<double> observe(const SharedBackend& shared, Window& window, Instant now);
  double speed_of(const SharedBackend& shared, double fallback_speed) const;
  void update_weights(const Backends& backends);

  BackendRecords<Window> windows_;
  std::optional<Instant> last_look_at_;
  Instant last_update_{};
};

}  // namespace evenkeel
