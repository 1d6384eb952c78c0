// The records that a pool keeps of some decisions of its scheduler.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "evenkeel/base/hash.h"
#include "evenkeel/scheduler/decision.h"
#include "evenkeel/scheduler/request_cost.h"
#include "pool/pool_scheduler.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_attempts = 16;  // of one name that are shown

}  // namespace

Decision* PoolScheduler::begin_record(const AdmissionTicket& ticket) {
  const RequestCost& cost = *ticket.hint.cost;
  if (!cost.wants_record && !ticket.is_sample) [[likely]]
    return nullptr;
  Decision* const decision = (cost.wants_record ? asked_ : samples_).begin(cost.name);
  if (decision == nullptr) return nullptr;
  decision->request = cost.request;
  decision->number = ++records_;
  decision->asked = cost.wants_record;
  decision->shadow = ticket.shadow;
  return decision;
}

void PoolScheduler::end_record(PlacedRequest& request) {
  if (request.decision_ == nullptr) return;
  (request.decision_->asked ? asked_ : samples_).end(*request.decision_);
  request.decision_ = nullptr;
}

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
  std::vector<CopiedDecision> copies(max_attempts);
  std::vector<const Decision*> newest;
  newest.reserve(2 * kept_decisions);  // nothing is allocated under the lock
  {
    std::lock_guard lock(mutex_);
    for (const DecisionLog* const log : {&asked_, &samples_}) {
      log->each(name, [&](const Decision& each) { newest.push_back(&each); });
    }
    std::ranges::sort(newest, {}, &Decision::number);
    if (newest.size() > max_attempts)
      newest.erase(newest.begin(), newest.end() - std::ptrdiff_t{max_attempts});
    for (std::size_t i = 0; i < newest.size(); ++i) copy(*newest[i], copies[i]);
  }
  copies.resize(newest.size());
  std::vector<ExplainedDecision> explained;
  for (const CopiedDecision& each : copies) explained.push_back(each.explained());
  return explained;
}

std::optional<ExplainedDecision> PoolScheduler::last_decision(std::string_view name,
                                                              std::uint64_t request) const {
  CopiedDecision copied;
  {
    const Decision* last = nullptr;
    std::lock_guard lock(mutex_);
    for (const DecisionLog* const log : {&asked_, &samples_}) {
      log->each(name, [&](const Decision& each) {
        if (each.request != request) return;
        if (last == nullptr || last->number < each.number) last = &each;
      });
    }
    if (last == nullptr) return std::nullopt;
    copy(*last, copied);
  }
  return copied.explained();
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
