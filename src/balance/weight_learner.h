// What `weights: observed` learns: how fast each backend is, from what it gets done.
//
//   speed  = answers / time that requests spent there,   over a window of 16 answers and a second
//   weight = speed / mean speed of the pool * mean configured weight,  moved by a quarter at most
//
// By Little's law that is the throughput of the backend over its mean of requests in flight.
// Throughput alone would not do: it is what it was given, and the more it is given the more it
// would be given. With these weights all carry the same number of requests; one that is overloaded
// takes longer and is given less, one that is given little is at its fastest. So shares settle, and
// nobody starves: weights stay within 1/16 and 16 times the mean, and all are asked often enough to
// be learnt of anew.
//
// Where answers take long, the time spent is that of all who were in flight, looked at ten times a
// second: what has been finished so far is the short ones. Where they do not, it is what they took.
//
// One that has not answered 16 yet is as the others until the time spent there says otherwise:
// (answers + 4) / (time + 4 / mean speed). The slowest, whose first window takes longest, is not
// held for an average one meanwhile.
//
// Answers that failed do not count: a server that fails quickly is not fast.
// One that finishes nothing in the time in which it used to finish eight counts as that slow.
//
// Source: gRPC's client-side weighted round robin (gRFC A58), weight = queries per second /
// utilization, with requests in flight for the utilization.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "evenkeel/balance/backend.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Learns; writes Load::learned_weight. Thread: the control thread's.
class WeightLearner {
 public:
  static constexpr double min_share = 1.0 / 16;  // of the mean
  static constexpr double max_share = 16;
  static constexpr double max_change = 1.25;  // of a weight, a second

  /// REQUIRES: called about ten times a second.
  void tick(const Backends& backends, Instant now);

 private:
  /// Of one backend: where its window began, and what the windows before it said.
  struct Window {
    Instant began;
    std::uint64_t served;
    Duration spent;        // by those who were served
    double in_flight = 0;  // seconds spent, served or not
    double speed = 0;      // answers per second in flight; 0: not known yet
    bool present = true;
  };

  void accumulate(const Backends& backends, Instant now);
  static std::optional<double> observe(const Load& load, Window& window, Instant now);
  double speed_of(const Load& load, double fallback_speed) const;
  void update_weights(const Backends& backends);

  std::unordered_map<const Load*, Window> windows_;
  std::optional<Instant> last_look_at_;
  Instant last_update_{};
};

}  // namespace evenkeel
