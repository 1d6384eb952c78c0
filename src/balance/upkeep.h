// What has to be done for a pool from time to time.
#pragma once

#include "balance/speed_rule.h"
#include "balance/standby.h"
#include "evenkeel/balance/pool.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Lets spares in and out, learns speeds. Passes from a pool's state to the one after a reload.
/// Thread: the control thread's.
class Upkeep {
 public:
  void turn(const PoolState& pool, Instant now);

 private:
  void turn_spares(const PoolState& pool, Instant now);

  Slowdown slowdown_;
  StandbyRule standby_;
  SpeedRule speeds_;
};

}  // namespace evenkeel
