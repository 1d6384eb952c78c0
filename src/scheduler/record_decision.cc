// What a pass records of requests that have a record. No decision reads it.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "scheduler/cost_parts.h"
#include "scheduler/scheduler_state.h"

namespace evenkeel {

void SchedulingPass::record(const ScheduledRequest& request, Candidate* chosen,
                            std::optional<HeldBy> held_by) {
  Decision& decision = *request.decision;
  note_hold(decision, held_by.value_or(HeldBy::order), now_);
  ++decision.looks;
  const bool is_first = chosen != nullptr && decision.best == Scheduler::no_backend;
  if (is_first) record_shadow(decision, *chosen);
  if (is_first || !held_by || decision.candidate_count == 0) record_costs(request, chosen);
  if (held_by) {
    decision.held_for = chosen == nullptr ? Scheduler::no_backend : chosen->slot;
    return;
  }
  decision.state = Decision::State::placed;
  decision.chosen = chosen->slot;
  decision.waited = duration_of(now_ - request.arrived_at);
  decision.predicted_ttft = duration_of(chosen->wait + chosen->prefill);
  decision.predicted_cached = chosen->cached;
  decision.predicted_output = state_.lengths.remaining(request.entry.output_class, 0);
}

/// Prices it a last time: it may never have been looked at.
void SchedulingPass::record_refusal(ScheduledRequest& request) {
  Decision& decision = *request.decision;
  note_hold(decision, decision.held_by, now_);
  decision.state = Decision::State::refused;
  decision.waited = duration_of(now_ - request.arrived_at);
  decision.least_prefill = request.least_prefill;
  find_usable(request);
  estimate(request);
  record_costs(request, nullptr);
}

/// The candidates that seem cheapest, with X, and the chosen one. Those that the request may not go
/// to now come last.
void SchedulingPass::record_costs(const ScheduledRequest& request, Candidate* chosen) {
  Decision& decision = *request.decision;
  std::array<Candidate*, Decision::max_candidates> kept;
  std::size_t count = 0;
  decision.considered = 0;
  for (Candidate& each : state_.candidates) {
    decision.considered += each.usable ? 1 : 0;
    if (count == kept.size() && each.cost >= kept[count - 1]->cost) continue;
    if (count < kept.size()) ++count;
    std::size_t at = count - 1;
    for (; at > 0 && each.cost < kept[at - 1]->cost; --at) kept[at] = kept[at - 1];
    kept[at] = &each;
  }
  auto* const end = kept.data() + count;
  std::size_t last = count;
  for (Candidate& each : state_.candidates) {
    const bool must_stay = &each == chosen || each.slot == decision.shadow;
    if (must_stay && std::find(kept.data(), end, &each) == end) kept[--last] = &each;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (std::isfinite(kept[i]->cost)) violations(*kept[i]);
  }
  std::sort(kept.data(), end, [](const Candidate* a, const Candidate* b) {
    return a->cost != b->cost ? a->cost < b->cost : a->slot < b->slot;
  });
  decision.candidate_count = count;
  for (std::size_t i = 0; i < count; ++i) decision.candidates[i] = cost_of(request, *kept[i]);
}

CandidateCost SchedulingPass::cost_of(const ScheduledRequest& request,
                                      const Candidate& candidate) const {
  const ScheduledBackend& backend = state_.backends[candidate.slot];
  CandidateCost cost{.slot = candidate.slot,
                     .identity = candidate.identity,
                     .state = candidate.state,
                     .confidence = backend.confidence(),
                     .streams = backend.ledger.streams(),
                     .wait = candidate.wait,
                     .promised = candidate.promised,
                     .cost = candidate.cost,
                     .heard_age = now_ - backend.heard_at,
                     .report_age = now_ - backend.reported_at};
  if (!std::isfinite(candidate.cost)) return cost;
  const double output = state_.lengths.remaining(request.entry.output_class, 0);
  const CostParts parts =
      parts_of(candidate, request.entry.prompt_tokens, now_ - request.arrived_at,
               1 / request.ttft_target, output, least_step_);
  cost.prefill = candidate.prefill;
  cost.load = candidate.load;
  cost.eviction = candidate.eviction;
  cost.cached = candidate.cached;
  cost.uncached = candidate.uncached;
  cost.lateness = parts.lateness;
  cost.violations = candidate.violations;
  cost.decode = parts.decode;
  cost.memory = parts.memory;
  return cost;
}

/// Both choices at the same price list, which another time would not have.
void SchedulingPass::record_shadow(Decision& decision, const Candidate& chosen) {
  decision.best = chosen.slot;
  decision.best_cost = chosen.cost;
  decision.shadow_cost = std::numeric_limits<double>::infinity();
  for (Candidate& each : state_.candidates) {
    if (each.slot != decision.shadow || !std::isfinite(each.cost)) continue;
    violations(each);
    decision.shadow_cost = each.cost;
  }
}

}  // namespace evenkeel
