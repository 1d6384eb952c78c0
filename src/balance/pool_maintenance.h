// The periodic work for a pool.
#pragma once

#include "balance/slow_start.h"
#include "balance/spare_controller.h"
#include "balance/weight_learner.h"
#include "evenkeel/balance/pool.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Moves spares in and out of rotation, ramps up backends that return, and learns weights. A pool's
/// state hands it to its successor. Thread: the control thread's.
class PoolMaintenance {
 public:
  void tick(const PoolState& pool, Instant now);

 private:
  void control_spares(const PoolState& pool, Instant now);

  LatencyRise latency_rise_;
  SpareController spare_controller_;
  SlowStart slow_start_;
  WeightLearner weight_learner_;
};

}  // namespace evenkeel
