// Gives a request that its pool cannot take to another pool.
#pragma once

#include <cstdint>
#include <string_view>

#include "evenkeel/http/message.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// Stands before a pool that has a `fallback`. When the pool has no backend, or its queue is full
/// or timed out, the other pool's handler gets the request; counters and the access log then have
/// that pool, and the response has the field x-evenkeel-fallback. A request that a backend may have
/// received never falls back.
///
/// Thread: one worker's. REQUIRES: the handlers outlive it.
class Fallback final : public Handler {
 public:
  struct Target {
    Handler& handler;
    std::string_view pool;
    std::uint32_t pool_index;  ///< of LabelIndex
  };

  Fallback(Handler& own, Target target, WorkerMetrics& worker_metrics)
      : own_(own), target_(target), worker_metrics_(worker_metrics) {}

  Task<Result<Response>> handle(Request& request) override;

 private:
  void move(RequestInfo& info) const;

  Handler& own_;
  Target target_;
  WorkerMetrics& worker_metrics_;
};

}  // namespace evenkeel
