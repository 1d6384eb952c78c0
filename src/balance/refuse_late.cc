// What a pass refuses because it would be too late, and when that should come back.
#include <algorithm>
#include <utility>

#include "balance/scheduler_state.h"

namespace evenkeel {
namespace {

constexpr double batch_patience = 4;

}  // namespace

void SchedulingPass::refuse_late() {
  bool shared_out = false;  // what waits when the first is refused counts for all
  for (std::size_t i = 0; i < state_.waiting.size();) {
    ScheduledRequest& request = state_.request(state_.waiting[i]);
    const double patience = request.priority == Priority::batch ? batch_patience : 1;
    const double expected = now_ - request.arrived_at + request.least_prefill;
    if (expected <= state_.options.shed_factor * patience * request.ttft_target) {
      ++i;
      continue;
    }
    if (!std::exchange(shared_out, true)) share_out_queue();
    state_.placements.push_back({.ticket = request.ticket,
                                 .retry_after = duration_of(drain_seconds(request)),
                                 .prefill = duration_of(request.least_prefill),
                                 .decode = duration_of(decode_seconds(request, least_step_))});
    if (request.decision != nullptr) [[unlikely]]
      record_refusal(request);
    state_.remove_waiting(request);
    state_.free(request);
  }
}

/// Each of the backends that a request may use gets the same share of its prefill. The few that a
/// retry has been to already get theirs, too.
void SchedulingPass::share_out_queue() {
  state_.queued_work.clear();
  for (Candidate& each : state_.candidates) each.queued = 0;
  for (const auto ticket : state_.waiting) {
    const ScheduledRequest& request = state_.request(ticket);
    if (request.pinned != Arrival::any_slot) {
      const ScheduledBackend& backend = state_.backends[request.pinned];
      if (backend.state == SlotState::out) continue;
      state_.candidates[backend.candidate].queued += request.least_prefill;
      continue;
    }
    auto work = std::ranges::find(state_.queued_work, request.allowed,
                                  &Scheduler::State::QueuedWork::allowed);
    if (work == state_.queued_work.end()) {
      work = state_.queued_work.insert(work, {.allowed = request.allowed});
    }
    work->seconds += request.least_prefill;
  }
  for (const auto& work : state_.queued_work) {
    const auto takes = [&work](const Candidate& each) {
      return work.allowed == nullptr || work.allowed->contains(each.slot);
    };
    const auto count = std::ranges::count_if(state_.candidates, takes);
    for (Candidate& each : state_.candidates) {
      if (takes(each)) each.queued += work.seconds / static_cast<double>(count);
    }
  }
}

/// Until what waits now has started on the backends that the request may use. If none of them is in
/// rotation: as long as its own prefill takes.
double SchedulingPass::drain_seconds(const ScheduledRequest& request) const {
  double work = 0;
  double backends = 0;
  for (const Candidate& each : state_.candidates) {
    if (!request.may_use(each.slot)) continue;
    work += each.wait + each.queued;
    ++backends;
  }
  return backends > 0 ? work / backends : request.least_prefill;
}

}  // namespace evenkeel
