// The periodic work for a pool.
#pragma once

#include "evenkeel/base/clock.h"
#include "evenkeel/pool/pool.h"
#include "pool/silence_detector.h"
#include "pool/slow_start.h"
#include "pool/slowness_detector.h"
#include "pool/standby_controller.h"
#include "pool/weight_learner.h"

namespace evenkeel {

/// Moves standby backends in and out of rotation, ramps up backends that return, learns weights,
/// and notices backends that are silent, slow or get few requests. A pool's state hands it on.
///
/// Thread: the control thread's.
class PoolMaintenance {
 public:
  void tick(const PoolState& pool, Instant now);
  WeightLearner& weight_learner() { return weight_learner_; }

 private:
  void control_standby(const PoolState& pool, Instant now);

  LatencyRise latency_rise_;
  StandbyController standby_controller_;
  SlowStart slow_start_;
  SilenceDetector silence_detector_;
  SlownessDetector slowness_detector_;
  WeightLearner weight_learner_;
};

}  // namespace evenkeel
