// Gives a request that its pool cannot take to another pool.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"
#include "evenkeel/stats/worker_metrics.h"
#include "evenkeel/upstream/model_catalog.h"
#include "proxy/plan_pools.h"

namespace evenkeel {

/// Stands before a pool that has a `fallback`. When the pool has no backend (`down`), its queue is
/// full or timed out (`saturated`), or its budget is used up (`over_budget`), the other pool's
/// handler gets the request; counters and the access log then have that pool, and the response has
/// the field x-evenkeel-fallback. A request that a backend may have received never falls back. Nor
/// does one for a model that the other pool does not have, or where that has no budget left: the
/// pool's own answer, which says when to try again, tells the client more.
///
/// Thread: one worker's. REQUIRES: the handler and the other pool outlive it.
class Fallback final : public Handler {
 public:
  /// `when`: what the other pool takes requests for. `models`: where the worker keeps the present
  /// catalog; null: there is never any.
  Fallback(Handler& own, const PlanPool& target, const std::vector<FallbackReason>& when,
           const std::shared_ptr<const ModelCatalog>* models, WorkerMetrics& worker_metrics)
      : own_(own), target_(target), when_(when), models_(models), worker_metrics_(worker_metrics) {}

  Task<Result<Response>> handle(Request& request) override;

 private:
  bool takes(const Error& error) const;
  const PlanPool* target_for(const Request& request) const;
  bool may_have(const PoolConfig& pool, std::string_view model) const;
  void move(RequestInfo& info, const PlanPool& target) const;

  Handler& own_;
  const PlanPool& target_;
  const std::vector<FallbackReason>& when_;
  const std::shared_ptr<const ModelCatalog>* models_;
  WorkerMetrics& worker_metrics_;
};

}  // namespace evenkeel
