#include "pool/pool_scheduler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <span>
#include <utility>

#include "evenkeel/base/hash.h"
#include "evenkeel/scheduler/prefix_index.h"
#include "evenkeel/scheduler/request_cost.h"

namespace evenkeel {
namespace {

constexpr Duration min_pass_interval = std::chrono::milliseconds(10);  // of passes without an event
constexpr std::size_t min_slots = 64;
constexpr std::chrono::duration<double> busy_time_constant(3);

std::uint32_t capacity_for(std::size_t backends) {
  return static_cast<std::uint32_t>(std::bit_ceil(std::max(min_slots, 2 * backends)));
}

SchedulerOptions with_slots(SchedulerOptions options, std::uint32_t slots) {
  options.slots = slots;
  return options;
}

/// Returns 0 if the number is unknown.
std::uint64_t whole(double tokens) {
  return tokens > 0 && tokens < 1e9 ? static_cast<std::uint64_t>(tokens) : 0;
}

SlotState state_of(const SharedBackend& shared, Instant now) {
  if (!shared.state.in_rotation()) return SlotState::out;
  if (!shared.slots.has_room()) return SlotState::full;
  return shared.state.avoided(now) ? SlotState::avoided : SlotState::open;
}

}  // namespace

PoolScheduler::PoolScheduler(const SchedulerOptions& options, std::size_t backends,
                             std::shared_ptr<Admission> admission)
    : admission_(std::move(admission)),
      mutex_(admission_->mutex()),
      scheduler_(with_slots(options, capacity_for(backends))),
      capacity_(capacity_for(backends)),
      index_bytes_(options.config.index_bytes),
      slots_(capacity_),
      asked_(kept_decisions),
      samples_(kept_decisions) {}

bool PoolScheduler::fits(const SchedulerOptions& options, const Backends& backends) const {
  if (options.config.index_bytes != index_bytes_) return false;
  std::lock_guard lock(mutex_);
  const auto added = std::ranges::count_if(
      backends, [&](const BackendPtr& each) { return !slot_of_.contains(&each->shared()); });
  return slot_of_.size() + static_cast<std::size_t>(added) <= capacity_;
}

void PoolScheduler::configure(const SchedulerOptions& options) {
  std::lock_guard lock(mutex_);
  scheduler_.configure(options);
}

std::vector<std::uint32_t> PoolScheduler::join(const Backends& backends) {
  std::vector<std::uint32_t> given;
  std::lock_guard lock(mutex_);
  for (const BackendPtr& backend : backends) {
    const auto [found, is_new] = slot_of_.try_emplace(&backend->shared(), 0);
    if (is_new) {
      const auto free = std::ranges::find(slots_, 0u, &Slot::users);
      assert(free != slots_.end());
      found->second = static_cast<std::uint32_t>(free - slots_.begin());
      *free = {.backend = backend, .cache_clears = backend->signals().engine().cache_clears()};
      used_slots_ = std::max(used_slots_, found->second + 1);
      // The same in every process, so that replicas break ties alike.
      scheduler_.add_backend(found->second, {.identity = hash_of(backend->id())});
    }
    ++slots_[found->second].users;
    given.push_back(found->second);
  }
  return given;
}

void PoolScheduler::leave(const Backends& backends) {
  std::lock_guard lock(mutex_);
  for (const BackendPtr& backend : backends) {
    const auto found = slot_of_.find(&backend->shared());
    Slot& slot = slots_[found->second];
    if (--slot.users > 0) continue;
    scheduler_.remove_backend(found->second);
    slot = {};
    slot_of_.erase(found);
  }
  while (used_slots_ > 0 && slots_[used_slots_ - 1].users == 0) --used_slots_;
}

/// The workers' clocks differ by the length of an iteration.
Instant PoolScheduler::in_order(Instant now) { return last_time_ = std::max(last_time_, now); }

/// What the request asks, with what the scheduler knows of its backends. Points into the ticket.
Arrival PoolScheduler::arrival_of(const AdmissionTicket& ticket) const {
  const Hint& hint = ticket.hint;
  const auto slot_of = [&](const SharedBackend* shared) {
    return shared == nullptr ? Arrival::any_slot : slot_of_.at(shared);
  };
  Arrival arrival = hint.cost->arrival;
  arrival.priority = hint.priority;
  arrival.waiting_since = ticket.joined;
  const auto adapter = adapter_names_.find(hint.cost->model);
  if (adapter != adapter_names_.end()) arrival.adapter = adapter->second;
  arrival.allowed = &ticket.queue->slots;
  arrival.pinned = slot_of(hint.pinned);
  arrival.preferred = slot_of(hint.preferred);
  return arrival;
}

void PoolScheduler::arrive(AdmissionTicket& ticket, Picker*, Instant now) {
  now = in_order(now);
  ++stats_.arrived_total;
  PlacedRequest& request = *ticket.placed;
  Arrival arrival = arrival_of(ticket);
  std::array<std::uint32_t, ExcludedBackends::capacity> excluded;
  std::size_t count = 0;
  for (const Backend* each : ticket.hint.excluded) {
    const auto found = slot_of_.find(&each->shared());
    if (found != slot_of_.end()) excluded[count++] = found->second;
  }
  arrival.excluded = std::span(excluded).first(count);
  if (const auto* const only = ticket.hint.excluded.only()) [[unlikely]] {
    for (const Backend* each : *only) {
      const auto found = slot_of_.find(&each->shared());
      if (found != slot_of_.end()) ticket.only.add(found->second);
    }
    arrival.only = &ticket.only;
  }
  request.decision_ = arrival.decision = begin_record(ticket);
  request.ticket_ = scheduler_.arrive(arrival, now);
  if (waiting_.size() <= request.ticket_) waiting_.resize(2 * std::size_t{request.ticket_} + 64);
  waiting_[request.ticket_] = &ticket;
  pass_locked(now);
}

void PoolScheduler::leave(AdmissionTicket& ticket, bool moves, Instant now) {
  PlacedRequest& request = *ticket.placed;
  scheduler_.abandoned(request.ticket_, in_order(now));
  request.stage_ = PlacedRequest::Stage::ended;
  if (request.decision_ == nullptr) [[likely]]
    return;
  if (moves) {
    request.decision_->state = Decision::State::moved;
  } else {
    end_placing(request);
  }
  end_record(request);
}

/// Ends the request's wait: the costs of its candidates do not change any more.
void PoolScheduler::end_placing(const PlacedRequest& request) {
  ShadowStats* const shadow = request.pool_->shadow_stats();
  if (request.decision_ != nullptr && shadow != nullptr)
    compare_with_shadow(*request.decision_, *shadow);
}

void PoolScheduler::pass(Instant now) {
  if (!admission_->has_scheduled()) return;
  std::lock_guard lock(mutex_);
  now = in_order(now);
  if (now - last_pass_ >= min_pass_interval) pass_locked(now);
}

void PoolScheduler::pass_locked(Instant now) {
  last_pass_ = now;
  if (scheduler_.waiting() == 0) return;
  read_states(now);
  for (const Scheduler::Placement& placement : scheduler_.place(now, this)) {
    AdmissionTicket& ticket = *waiting_[placement.ticket];
    PlacedRequest& request = *ticket.placed;
    stats_.prefill_sum += placement.prefill;
    stats_.decode_sum += placement.decode;
    stats_.work_sum += placement.work;
    end_placing(request);
    if (placement.backend == Scheduler::no_backend) {
      ++stats_.refused_total;
      request.stage_ = PlacedRequest::Stage::ended;
      end_record(request);
      admission_->refuse(ticket, placement.retry_after);
    } else {
      ++stats_.placed_total;
      request.stage_ = PlacedRequest::Stage::placed;
      request.placed_at_ = now;
      request.predicted_ttft_ = placement.predicted_ttft;
      const SharedBackend& shared = slots_[placement.backend].backend->shared();
      admission_->start(ticket, *ticket.pool->backend_set().find(shared), now);
    }
  }
}

bool PoolScheduler::try_acquire(std::uint32_t slot) {
  return slots_[slot].backend->try_acquire(last_pass_);
}

void PoolScheduler::read_states(Instant now) {
  for (std::uint32_t i = 0; i < used_slots_; ++i) {
    if (slots_[i].users > 0) scheduler_.set_state(i, state_of(slots_[i].backend->shared(), now));
  }
}

void PoolScheduler::tick(Instant now) {
  if (read_reports(now)) learn_adapter_names();
}

/// True if the names of adapters have changed.
bool PoolScheduler::read_reports(Instant now) {
  std::lock_guard lock(mutex_);
  now = in_order(now);
  for (std::uint32_t i = 0; i < used_slots_; ++i) {
    Slot& slot = slots_[i];
    if (slot.users == 0) continue;
    const Signals& signals = slot.backend->signals();
    const auto age = signals.age(now);
    const bool is_new = age && now - *age > std::exchange(slot.reported_at, now - *age);
    if (is_new) scheduler_.polled(i, signals.values(), now, signals.in_flight_at_poll());
    scheduler_.describe(i, whole(signals.kv_capacity_tokens()),
                        static_cast<std::uint32_t>(whole(signals.step_tokens())));
    const std::uint64_t clears = signals.engine().cache_clears();
    if (std::exchange(slot.cache_clears, clears) != clears) scheduler_.backend_cleared(i);
    if (slot.confirm_until != never) [[unlikely]]
      forget_unconfirmed(i, now);
    const std::uint64_t pages = signals.engine().reports();
    if (std::exchange(slot.pages, pages) != pages) read_adapters(i, slot.reported_at);
  }
  pass_locked(now);
  measure_busy(now);
  return adapter_names_changed();
}

/// Counts what waits, for the pool's standby backends: engines do not queue what is held here.
void PoolScheduler::measure_busy(Instant now) {
  double serving = 0;
  double busy = 0;
  for (std::uint32_t i = 0; i < used_slots_; ++i) {
    if (slots_[i].users == 0 || !slots_[i].backend->state().in_rotation()) continue;
    ++serving;
    if (scheduler_.forecast(i, now).wait > Duration{}) ++busy;
  }
  double ratio = serving > 0 ? busy / serving : 0;
  if (scheduler_.waiting() > 0) ratio = 1;
  const double passed = std::chrono::duration<double>(now - last_tick_) / busy_time_constant;
  stats_.busy_ratio += (1 - std::exp(-passed)) * (ratio - stats_.busy_ratio);
  last_tick_ = now;
}

SchedulerStats PoolScheduler::stats(const ShadowStats* shadow) const {
  std::lock_guard lock(mutex_);
  SchedulerStats stats = stats_;
  stats.index_bytes = scheduler_.prefixes().bytes();
  stats.work_capacity = scheduler_.capacity();
  if (shadow != nullptr) stats.shadow = *shadow;
  return stats;
}

std::optional<BackendForecast> PoolScheduler::forecast(const SharedBackend& shared,
                                                       Instant now) const {
  std::lock_guard lock(mutex_);
  const auto found = slot_of_.find(&shared);
  if (found == slot_of_.end()) return std::nullopt;
  return scheduler_.forecast(found->second, now);
}

}  // namespace evenkeel
