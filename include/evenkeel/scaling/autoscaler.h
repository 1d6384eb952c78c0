// Plans the replicas of all pools with `scaling`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/pool/pool.h"
#include "evenkeel/scaling/replica_planner.h"
#include "evenkeel/scaling/scaling_feed.h"

namespace evenkeel {

/// Looks at pools, and publishes how many replicas each should have. What it has seen of a pool
/// passes to the next version of it, by its name.
///
/// Thread: the control thread.
class Autoscaler {
 public:
  /// `feed` outlives it.
  explicit Autoscaler(ScalingFeed& feed) : feed_(feed) {}

  /// REQUIRES: each pool has `scaling`; they are all that do. Call it about ten times a second: it
  /// plans once a second, and at once where a request waits for the first replica.
  void tick(const std::vector<const PoolState*>& pools, Instant now);

 private:
  using Planners = std::map<std::string, ReplicaPlanner, std::less<>>;

  bool is_urgent(const PoolState& pool) const;

  ScalingFeed& feed_;
  Planners planners_;  // by pool
  Instant planned_at_{};
};

}  // namespace evenkeel
