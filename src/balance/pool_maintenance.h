// What has to be done for a pool from time to time.
#pragma once

#include "balance/spare_controller.h"
#include "balance/weight_learner.h"
#include "evenkeel/balance/pool.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Lets spares in and out, learns speeds. Passes from a pool's state to the one after a reload.
/// Thread: the control thread's.
class PoolMaintenance {
 public:
  void tick(const PoolState& pool, Instant now);

 private:
  void control_spares(const PoolState& pool, Instant now);

  LatencyRise latency_rise_;
  SpareController spare_controller_;
  WeightLearner weight_learner_;
};

}  // namespace evenkeel
