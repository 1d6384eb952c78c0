// What a pass refuses because it would be too late, and when that should come back.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "scheduler/scheduler_state.h"

namespace evenkeel {

void SchedulingPass::refuse_late() {
  if (now_ <= state_.next_refusal) return;
  state_.next_refusal = std::numeric_limits<double>::infinity();
  bool shared_out = false;  // what waits when the first is refused counts for all
  const auto is_refused = [&](const TenantLine::Entry& entry) {
    ScheduledRequest& request = state_.request(entry.ticket);
    const double refused_at = state_.refused_at(request);
    if (now_ <= refused_at) {
      state_.next_refusal = std::min(state_.next_refusal, refused_at);
      return false;
    }
    if (!std::exchange(shared_out, true)) share_out_queue();
    state_.placements.push_back({.ticket = request.ticket,
                                 .retry_after = duration_of(drain_seconds(request)),
                                 .prefill = duration_of(request.least_prefill),
                                 .decode = duration_of(decode_seconds(request, least_step_)),
                                 .work = duration_of(work_seconds(request))});
    if (request.decision != nullptr) [[unlikely]]
      record_refusal(request);
    state_.count_leaving(request);
    state_.free(request);
    return true;
  };
  for (TenantLine& line : state_.lines) std::erase_if(line.entries, is_refused);
}

/// The work of a request that no backend gets, on any of them.
double SchedulingPass::work_seconds(const ScheduledRequest& request) const {
  const double prefill = std::max(0.0, request.least_prefill - least_step_);
  if (state_.candidates.empty()) return prefill;
  const ScheduledBackend& backend = state_.backends[state_.candidates.front().slot];
  return prefill + decode_seconds(request, added_per_token(request, backend));
}

/// Each of the backends that a request may use gets the same share of its prefill. The few that a
/// retry has been to already get theirs, too.
void SchedulingPass::share_out_queue() {
  state_.queued_work.clear();
  for (Candidate& each : state_.candidates) each.queued = 0;
  for (const TenantLine& line : state_.lines) {
    if (line.entries.empty()) continue;  // the backends that it was for may be gone
    double seconds = 0;
    for (const auto& entry : line.entries) {
      const ScheduledRequest& request = state_.request(entry.ticket);
      if (request.pinned == Arrival::any_slot) {
        seconds += request.least_prefill;
      } else if (const ScheduledBackend& backend = state_.backends[request.pinned];
                 backend.state != SlotState::out) {
        state_.candidates[backend.candidate].queued += request.least_prefill;
      }
    }
    auto work =
        std::ranges::find(state_.queued_work, line.allowed, &Scheduler::State::QueuedWork::allowed);
    if (work == state_.queued_work.end()) {
      work = state_.queued_work.insert(work, {.allowed = line.allowed});
    }
    work->seconds += seconds;
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

/// The time until what waits now has started on the backends that the request may use; if none of
/// them is in rotation, that of its own prefill.
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
