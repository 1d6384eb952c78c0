// The order in which a pass looks at the requests that wait.
#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "scheduler/scheduler_state.h"

namespace evenkeel {
namespace {

constexpr double bucket_seconds = 0.5;  // of a tenant's counter

}  // namespace

void SchedulingPass::find_ready_slots() {
  knows_ready_slots_ = true;
  state_.ready_slots.clear();
  for (const Candidate& each : state_.candidates) {
    if (ready(each)) state_.ready_slots.add(each.slot);
  }
}

/// Requests that wait for busy backends are not looked at, so that they do not keep others from
/// theirs.
bool SchedulingPass::may_find_slot(const TenantLine& line) {
  if (line.allowed == nullptr) return true;
  if (!knows_ready_slots_) find_ready_slots();
  return state_.ready_slots.intersects(*line.allowed);
}

/// REQUIRES: its line may find one.
bool SchedulingPass::may_find_slot(const ScheduledRequest& request) {
  const bool may_use_any = request.excluded_count == 0 && request.only == nullptr;
  if (request.pinned == Arrival::any_slot && may_use_any) [[likely]]
    return true;
  if (!knows_ready_slots_) find_ready_slots();
  if (request.pinned != Arrival::any_slot) return state_.ready_slots.contains(request.pinned);
  find_usable(request);
  return std::ranges::any_of(state_.candidates,
                             [this](const Candidate& each) { return each.usable && ready(each); });
}

/// The first request of each line has its turn: a line is in order already.
void SchedulingPass::put_in_order() {
  const bool is_alone = state_.waiting == 1;  // ahead of no other
  const double least = is_alone ? 0 : state_.least_served();
  state_.order.clear();
  for (std::uint32_t i = 0; i < state_.lines.size(); ++i) {
    const TenantLine& line = state_.lines[i];
    if (line.entries.empty() || !may_find_slot(line)) continue;
    const double ahead = is_alone ? 0 : state_.tenant(line.tenant).served - least;
    add_turn(i, 0, static_cast<std::int64_t>(ahead / bucket_seconds));
  }
  let_priorities_age();
  find_last_late();
  std::make_heap(state_.order.begin(), state_.order.end(), std::greater<>());
}

/// Appends the turn of the first request of a line, from this one on, that may find a slot.
void SchedulingPass::add_turn(std::uint32_t line, std::uint32_t from, std::int64_t bucket) {
  const auto& [priority, tenant, allowed, entries] = state_.lines[line];
  for (; from < entries.size(); ++from) {
    if (!may_find_slot(state_.request(entries[from].ticket))) continue;
    state_.order.push_back({.priority = priority,
                            .bucket = bucket,
                            .entry = entries[from],
                            .line = line,
                            .index = from});
    return;
  }
}

/// Returns nothing if all requests had their turn.
std::optional<Scheduler::State::Turn> SchedulingPass::next_turn() {
  auto& order = state_.order;
  if (order.empty()) return std::nullopt;
  std::pop_heap(order.begin(), order.end(), std::greater<>());
  const Scheduler::State::Turn turn = order.back();
  order.pop_back();
  if (turn.is_alone) return turn;
  const std::size_t others = order.size();
  add_turn(turn.line, turn.index + 1, turn.bucket);
  if (order.size() > others) std::push_heap(order.begin(), order.end(), std::greater<>());
  return turn;
}

/// A request rises by one class with each third of the patience, as in Admission. Only the first
/// of each class does, so that age does not override shares and sizes within a class.
void SchedulingPass::let_priorities_age() {
  const double third = seconds_of(state_.options.patience) / priority_count;
  if (third <= 0) return;
  constexpr std::size_t none = ~std::size_t{0};
  std::array<std::size_t, priority_count> first;
  first.fill(none);
  auto& order = state_.order;
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::size_t& best = first[static_cast<std::size_t>(order[i].priority)];
    if (best == none || order[i] < order[best]) best = i;
  }
  for (const std::size_t i : first) {
    if (i == none) continue;
    const auto risen = static_cast<int>(
        std::min<double>((now_ - order[i].entry.arrived_at) / third, priority_count));
    if (risen <= 0 || order[i].priority == Priority{}) continue;
    order[i].priority =
        static_cast<Priority>(std::max(static_cast<int>(order[i].priority) - risen, 0));
    order[i].is_alone = true;
    add_turn(order[i].line, order[i].index + 1, order[i].bucket);
  }
}

/// Finds the request whose turn comes last, of those that nothing holds any more.
void SchedulingPass::find_last_late() {
  for (const auto& turn : state_.order) {
    if (last_late_tenant_ && turn.turn() <= last_late_turn_) continue;
    if (!has_late(turn)) continue;
    last_late_tenant_ = state_.lines[turn.line].tenant;
    last_late_turn_ = turn.turn();
  }
}

/// True if the request, or one that follows it in its line, is held by nothing any more.
bool SchedulingPass::has_late(const Scheduler::State::Turn& turn) {
  const auto& entries = state_.lines[turn.line].entries;
  const std::size_t end = turn.is_alone ? turn.index + 1 : entries.size();
  for (std::size_t i = turn.index; i < end; ++i) {
    if (now_ - entries[i].arrived_at < max_held_age) continue;
    if (i == turn.index || may_find_slot(state_.request(entries[i].ticket))) return true;
  }
  return false;
}

/// The lines do not change while their requests have their turns.
void SchedulingPass::keep_lines() {
  for (const auto& placement : state_.placements) {
    if (placement.backend != Scheduler::no_backend)
      state_.remove_waiting(state_.request(placement.ticket));
  }
  for (const auto ticket : state_.repriced) state_.move_in_line(state_.request(ticket));
  state_.repriced.clear();
}

}  // namespace evenkeel
