#include "balance/pool_scheduler.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <new>
#include <utility>

#include "evenkeel/base/client_key.h"
#include "evenkeel/base/hash.h"

namespace evenkeel {
namespace {

using std::chrono::milliseconds;

constexpr Duration min_pass_interval = milliseconds(10);  // of passes without an event
constexpr std::size_t min_slots = 64;
constexpr std::chrono::duration<double> busy_time_constant(3);
constexpr std::size_t kept_decisions = 128;  // of samples, and of requests that asked

std::uint32_t capacity_for(std::size_t backends) {
  return static_cast<std::uint32_t>(std::bit_ceil(std::max(min_slots, 2 * backends)));
}

SchedulerOptions options_of(const PoolSpec& spec) {
  const auto target = [](milliseconds promised) {
    return promised == milliseconds{} ? std::nullopt : std::optional<Duration>(promised);
  };
  return {.index_bytes = spec.picker.index_bytes,
          .ttft_target = target(spec.picker.slo.ttft),
          .tpot_target = target(spec.picker.slo.tpot),
          .shed_factor = spec.picker.shed,
          .patience = spec.queue.timeout,
          .foreign_traffic = spec.picker.shared_backends};
}

SchedulerOptions with_slots(SchedulerOptions options, std::uint32_t slots) {
  options.slots = slots;
  return options;
}

/// 0: unknown.
std::uint64_t whole(double tokens) {
  return tokens > 0 && tokens < 1e9 ? static_cast<std::uint64_t>(tokens) : 0;
}

SlotState state_of(const Load& load, Instant now) {
  if (!load.in_rotation()) return SlotState::out;
  if (!load.has_room(load.limit())) return SlotState::full;
  if (!load.in_backoff(now)) return SlotState::open;
  return load.takes_overflow(now) ? SlotState::overflow : SlotState::avoided;
}

}  // namespace

class PoolScheduler::Taker final : public Scheduler::SlotTaker {
 public:
  Taker(std::vector<Slot>& slots, Instant now) : slots_(slots), now_(now) {}
  bool take(std::uint32_t slot) override { return slots_[slot].backend->try_acquire(now_); }

 private:
  std::vector<Slot>& slots_;
  Instant now_;
};

// ---- PoolScheduler ----------------------------------------------------------------------------

PoolScheduler::PoolScheduler(const SchedulerOptions& options, std::size_t backends)
    : scheduler_(with_slots(options, capacity_for(backends))),
      capacity_(capacity_for(backends)),
      index_bytes_(options.index_bytes),
      slots_(capacity_),
      asked_(kept_decisions),
      samples_(kept_decisions) {}

bool PoolScheduler::fits(const SchedulerOptions& options, const Backends& backends) const {
  if (options.index_bytes != index_bytes_) return false;
  std::lock_guard lock(mutex_);
  const auto added = std::ranges::count_if(
      backends, [&](const BackendPtr& each) { return !slot_of_.contains(&each->load()); });
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
    const auto [found, is_new] = slot_of_.try_emplace(&backend->load(), 0);
    if (is_new) {
      const auto free = std::ranges::find(slots_, 0u, &Slot::users);
      assert(free != slots_.end());
      found->second = static_cast<std::uint32_t>(free - slots_.begin());
      *free = {.backend = backend,
               .cache_clears = backend->load().signals().engine().cache_clears()};
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
    const auto found = slot_of_.find(&backend->load());
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

PoolScheduler::Arrived PoolScheduler::arrive(PlacedRequest& request, Arrival& arrival,
                                             const Hint& hint, std::uint32_t max_waiting,
                                             Instant now) {
  std::lock_guard lock(mutex_);
  now = in_order(now);
  ScheduledSection& section = request.section_;
  arrival.cookie = reinterpret_cast<std::uintptr_t>(&request);
  arrival.allowed = &section.slots;
  arrival.priority = request.priority_;
  if (!adapter_names_.empty()) arrival.adapter = adapter_names_.find(arrival.model);
  if (section.waiting.size() == section.waiting.capacity()) {
    section.waiting.reserve(std::max<std::size_t>(64, 2 * section.waiting.size()));
  }
  if (arrival.wants_record || arrival.sampled) {
    request.decision_ = arrival.decision = begin_record(arrival);
  }
  request.ticket_ = scheduler_.arrive(arrival, now);
  request.arrived_at_ = arrival.waits_since(now);
  request.waiting_index_ = static_cast<std::uint32_t>(section.waiting.size());
  section.waiting.push_back(&request);               // there is room
  waiting_.fetch_add(1, std::memory_order_seq_cst);  // before the pass looks for a slot

  arriving_ = &request;
  pass_locked(now);
  arriving_ = nullptr;
  if (request.stage_ == PlacedRequest::Stage::placed) return Arrived::placed;
  if (request.stage_ == PlacedRequest::Stage::refused) return Arrived::refused;
  const std::uint64_t client = client_key(hint.tenant, hint.client);
  bool may_wait = section.waiting.size() <= max_waiting;
  if (!may_wait) {
    ++queue_.full_total;
    may_wait = displace(section, request, client);
  }
  if (may_wait) {
    count_client(request, client);
    return Arrived::waits;
  }
  scheduler_.abandoned(request.ticket_, now);
  end_wait(request, PlacedRequest::Stage::ended);
  return Arrived::full;
}

/// Without memory it has no part in its client's share.
void PoolScheduler::count_client(PlacedRequest& request, std::uint64_t client) noexcept {
  try {
    request.section_.clients.add(client);
    request.client_ = client;
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
  }
}

/// The newest of the section's least urgent requests makes room for a more urgent one; else the
/// newest of those as urgent of the client that has the most, for one of a client with fewer.
bool PoolScheduler::displace(ScheduledSection& section, const PlacedRequest& request,
                             std::uint64_t client) {
  PlacedRequest* last = nullptr;
  PlacedRequest* of_greediest = nullptr;
  const std::uint32_t own = section.clients.of(client);
  const bool has_greedy = section.clients.most() > own + 1;
  for (PlacedRequest* const each : section.waiting) {
    if (each == &request || each->priority_ < request.priority_) continue;
    const auto is_after = [each](const PlacedRequest* other) {
      return other == nullptr || std::pair(other->priority_, other->arrived_at_) <=
                                     std::pair(each->priority_, each->arrived_at_);
    };
    if (each->priority_ > request.priority_) {
      if (is_after(last)) last = each;
    } else if (has_greedy && is_after(of_greediest) && each->client_ &&
               section.clients.gives_way(*each->client_, own)) {
      of_greediest = each;
    }
  }
  if (last == nullptr) last = of_greediest;
  if (last == nullptr) return false;
  PlacedRequest& displaced = *last;
  ++queue_.displaced_total;
  scheduler_.abandoned(displaced.ticket_, last_time_);
  end_wait(displaced, PlacedRequest::Stage::displaced);
  wake(displaced);
  return true;
}

void PoolScheduler::end_wait(PlacedRequest& request, PlacedRequest::Stage stage) {
  auto& waiting = request.section_.waiting;
  waiting[request.waiting_index_] = waiting.back();
  waiting.back()->waiting_index_ = request.waiting_index_;
  waiting.pop_back();
  waiting_.fetch_sub(1, std::memory_order_seq_cst);
  if (request.client_) request.section_.clients.remove(*std::exchange(request.client_, {}));
  request.stage_ = stage;
  if (request.decision_ == nullptr) [[likely]]
    return;
  const bool moved = stage == PlacedRequest::Stage::moved;
  if (moved) request.decision_->fate = Decision::Fate::moved;
  ShadowStats* const shadow = request.pool_->shadow_stats();
  if (shadow != nullptr && !moved) compare_with_shadow(*request.decision_, *shadow);
  if (stage != PlacedRequest::Stage::placed) end_record(request);
}

/// Under the lock: a waiter that is dropped takes it too, so its loop still exists. Without memory
/// for the message the waiter finds out at its next look.
void PoolScheduler::wake(PlacedRequest& request) const noexcept {
  if (&request == arriving_) return;
  try {
    request.loop_.post([waiting = request.shared_from_this()] {
      if (waiting->signal_ != nullptr) waiting->signal_->raise();
    });
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
  }
}

void PoolScheduler::pass(Instant now) {
  if (!has_waiting()) return;
  std::lock_guard lock(mutex_);
  now = in_order(now);
  if (now - last_pass_ >= min_pass_interval) pass_locked(now);
}

void PoolScheduler::pass_locked(Instant now) {
  last_pass_ = now;
  if (scheduler_.waiting() == 0) return;
  read_states(now);
  Taker taker(slots_, now);
  for (const Scheduler::Placement& placement : scheduler_.place(now, &taker)) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): arrive() made the cookie of this very pointer.
    auto& request = *reinterpret_cast<PlacedRequest*>(placement.cookie);
    stats_.prefill_sum += placement.prefill;
    stats_.decode_sum += placement.decode;
    if (placement.backend == Scheduler::no_backend) {
      ++stats_.refused_total;
      request.retry_after_ = placement.retry_after;
      end_wait(request, PlacedRequest::Stage::refused);
    } else {
      ++stats_.placed_total;
      request.backend_ = slots_[placement.backend].backend.get();
      request.placed_at_ = now;
      request.predicted_ttft_ = placement.predicted_ttft;
      end_wait(request, PlacedRequest::Stage::placed);
    }
    wake(request);
  }
}

void PoolScheduler::read_states(Instant now) {
  for (std::uint32_t i = 0; i < used_slots_; ++i) {
    if (slots_[i].users > 0) scheduler_.set_state(i, state_of(slots_[i].backend->load(), now));
  }
}

void PoolScheduler::tick(Instant now) {
  if (read_reports(now)) learn_adapter_names();
}

/// True: the names of adapters have changed.
bool PoolScheduler::read_reports(Instant now) {
  std::lock_guard lock(mutex_);
  now = in_order(now);
  for (std::uint32_t i = 0; i < used_slots_; ++i) {
    Slot& slot = slots_[i];
    if (slot.users == 0) continue;
    const Signals& signals = slot.backend->load().signals();
    const auto age = signals.age(now);
    const bool is_new = age && now - *age > std::exchange(slot.reported_at, now - *age);
    if (is_new) scheduler_.polled(i, signals.values(), now, signals.in_flight_at_poll());
    scheduler_.describe(i, whole(signals.kv_capacity_tokens()),
                        static_cast<std::uint32_t>(whole(signals.step_tokens())));
    const std::uint64_t clears = signals.engine().cache_clears();
    if (std::exchange(slot.cache_clears, clears) != clears) scheduler_.backend_cleared(i);
    if (slot.confirm_until != never) [[unlikely]]
      doubt_restored(i, now);
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
    if (slots_[i].users == 0 || !slots_[i].backend->load().in_rotation()) continue;
    ++serving;
    if (scheduler_.predicted_wait(i, now) > Duration{}) ++busy;
  }
  double ratio = serving > 0 ? busy / serving : 0;
  if (scheduler_.waiting() > 0) ratio = 1;
  const double passed = std::chrono::duration<double>(now - last_tick_) / busy_time_constant;
  stats_.busy_ratio += (1 - std::exp(-passed)) * (ratio - stats_.busy_ratio);
  last_tick_ = now;
}

QueueStats PoolScheduler::queue() const {
  std::lock_guard lock(mutex_);
  QueueStats queue = queue_;
  queue.waiting = static_cast<std::uint32_t>(scheduler_.waiting());
  return queue;
}

std::uint32_t PoolScheduler::waiting_in(const ScheduledSection& section) const {
  std::lock_guard lock(mutex_);
  return static_cast<std::uint32_t>(section.waiting.size());
}

SchedulerStats PoolScheduler::stats(const ShadowStats* shadow) const {
  std::lock_guard lock(mutex_);
  SchedulerStats stats = stats_;
  stats.index_bytes = scheduler_.index_bytes();
  if (shadow != nullptr) stats.shadow = *shadow;
  return stats;
}

std::optional<BackendForecast> PoolScheduler::forecast(const Load& load, Instant now) const {
  std::lock_guard lock(mutex_);
  const auto found = slot_of_.find(&load);
  if (found == slot_of_.end()) return std::nullopt;
  return BackendForecast{.rung = scheduler_.rung(found->second),
                         .wait = scheduler_.predicted_wait(found->second, now),
                         .cached_tokens = scheduler_.cached_tokens(found->second)};
}

// ---- ScheduledPool ----------------------------------------------------------------------------

ScheduledPool::ScheduledPool(const PoolSpec& spec, std::shared_ptr<const Backends> backends,
                             const std::vector<Subset>& subsets, const ScheduledPool* predecessor)
    : options_(options_of(spec)),
      shadow_picker_(spec.picker.shadow_picker),
      backends_(std::move(backends)) {
  const bool goes_on =
      predecessor != nullptr && predecessor->scheduler_->fits(options_, *backends_);
  scheduler_ = goes_on ? predecessor->scheduler_
                       : std::make_shared<PoolScheduler>(options_, backends_->size());
  if (shadow_picker_) {
    const bool same = goes_on && predecessor->shadow_picker_ == shadow_picker_;
    shadow_stats_ = same ? predecessor->shadow_stats_ : std::make_shared<ShadowStats>();
  }
  slots_ = scheduler_->join(*backends_);
  if (predecessor != nullptr && !goes_on) scheduler_->continue_from(*predecessor->scheduler_);
  sections_.push_back(std::make_unique<ScheduledSection>());
  for (const std::uint32_t slot : slots_) sections_.front()->slots.add(slot);
  for (const Subset& subset : subsets) {
    ScheduledSection& section = *sections_.emplace_back(std::make_unique<ScheduledSection>());
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (subset.contains(i)) section.slots.add(slots_[i]);
    }
  }
}

ScheduledPool::~ScheduledPool() { scheduler_->leave(*backends_); }

}  // namespace evenkeel
