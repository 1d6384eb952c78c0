// The records that a pool keeps of some decisions of its scheduler.
#include <algorithm>
#include <cmath>

#include "balance/pool_scheduler.h"
#include "balance/scheduler_state.h"
#include "evenkeel/base/hash.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_attempts = 16;  // of one request that are shown

}  // namespace

Decision* PoolScheduler::begin_record(const Arrival& arrival) {
  Decision* const decision = (arrival.wants_record ? asked_ : samples_).begin(arrival.name);
  if (decision == nullptr) return nullptr;
  decision->asked = arrival.wants_record;
  decision->shadow = arrival.shadow;
  return decision;
}

void PoolScheduler::end_record(PlacedRequest& request) {
  if (request.decision_ == nullptr) return;
  (request.decision_->asked ? asked_ : samples_).end(*request.decision_);
  request.decision_ = nullptr;
}

/// Its wait is over: what it was priced at does not change any more.
void PoolScheduler::compare_with_shadow(const Decision& decision, ShadowStats& stats) {
  if (decision.shadow == Scheduler::no_backend || decision.best == Scheduler::no_backend) return;
  if (!std::isfinite(decision.shadow_cost)) {
    ++stats.unavailable_total;
    return;
  }
  ++stats.compared_total;
  if (decision.shadow == decision.best) {
    ++stats.agreed_total;
    return;
  }
  const Duration regret = duration_of(decision.shadow_cost - decision.best_cost);
  (regret > Duration{} ? stats.regret_sum : stats.gain_sum) += std::chrono::abs(regret);
}

/// A slot may have another backend by now. Allocates nothing, as the lock is held.
void PoolScheduler::copy(const Decision& decision, CopiedDecision& copied) const {
  copied.decision = decision;
  for (std::size_t i = 0; i < decision.candidate_count; ++i) {
    const BackendPtr& backend = slots_[decision.candidates[i].slot].backend;
    if (backend == nullptr || hash_of(backend->id()) != decision.candidates[i].identity) continue;
    copied.backends[i] = backend;
  }
}

std::vector<ExplainedDecision> PoolScheduler::decisions(std::string_view name) const {
  std::vector<CopiedDecision> found(max_attempts);
  std::size_t count = 0;
  {
    std::lock_guard lock(mutex_);
    for (const DecisionLog* const log : {&asked_, &samples_}) {
      log->each(name, [&](const Decision& each) {
        if (count < found.size()) copy(each, found[count++]);
      });
    }
  }
  found.resize(count);
  std::ranges::sort(found, {}, [](const CopiedDecision& each) { return each.decision.arrived_at; });
  std::vector<ExplainedDecision> explained;
  for (const CopiedDecision& each : found) explained.push_back(each.explained());
  return explained;
}

ExplainedDecision CopiedDecision::explained() const {
  ExplainedDecision explained{.decision = decision};
  for (std::size_t i = 0; i < decision.candidate_count; ++i) {
    if (backends[i] == nullptr) continue;
    explained.backends[decision.candidates[i].slot] = backends[i]->id();
  }
  return explained;
}

std::optional<ExplainedDecision> PlacedRequest::explanation() const {
  CopiedDecision copied;
  {
    std::lock_guard lock(scheduler_.mutex_);
    if (decision_ == nullptr) return std::nullopt;
    scheduler_.copy(*decision_, copied);
  }
  return copied.explained();
}

}  // namespace evenkeel
