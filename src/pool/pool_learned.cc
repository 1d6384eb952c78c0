// What a pool's scheduler passes to that of another process, or to the one that replaces it.
#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include "evenkeel/base/hash.h"
#include "evenkeel/scheduler/prefix_index.h"
#include "pool/pool_scheduler.h"

namespace evenkeel {
namespace {

// Blocks copied under the lock at a time: each is a miss or two of the processor's cache.
constexpr std::size_t copied_blocks = 256;
// The pause between two copies, in which the lock is free for others.
constexpr std::chrono::microseconds copy_pause(100);
constexpr std::size_t restored_blocks = 512;  // likewise
// The most blocks that a successor gets: a second of copying, and 8 MiB for the time of it.
constexpr std::size_t max_continued_blocks = 1u << 20;
// An engine that told when its process started tells it again by then: the first polls have ended.
constexpr Duration confirmation_time = std::chrono::seconds(30);

}  // namespace

std::vector<std::pair<std::uint32_t, BackendPtr>> PoolScheduler::taken_slots() const {
  std::vector<std::pair<std::uint32_t, BackendPtr>> taken;
  taken.reserve(capacity_);
  std::lock_guard lock(mutex_);
  for (std::uint32_t i = 0; i < used_slots_; ++i) {
    if (slots_[i].users > 0) taken.emplace_back(i, slots_[i].backend);
  }
  return taken;
}

/// True if no other backend has taken the slot. REQUIRES: the lock is held.
bool PoolScheduler::has(std::uint32_t slot, const BackendPtr& backend) const {
  return slots_[slot].users > 0 && &slots_[slot].backend->shared() == &backend->shared();
}

LearnedScheduler PoolScheduler::learned(std::size_t max_prefixes, Instant now) {
  // Of prefixes, one copy at a time; without any, the lock is not waited for.
  std::unique_lock one_copy(learned_mutex_, std::defer_lock);
  if (max_prefixes > 0) one_copy.lock();
  LearnedScheduler learned;
  learned.traffic.output_classes.reserve(Scheduler::max_learned_classes);
  learned.traffic.output_lengths.reserve(Scheduler::max_learned_lengths);
  {
    std::lock_guard lock(mutex_);
    scheduler_.learned(learned.traffic);
    learned.traffic.tokens_per_event = tokens_per_event_;
  }
  const auto taken = taken_slots();
  for (const auto& [slot, backend] : taken) {
    LearnedEngine engine;
    engine.adapters.reserve(Scheduler::max_learned_adapters);
    {
      std::lock_guard lock(mutex_);
      if (!has(slot, backend)) continue;
      scheduler_.learned(slot, engine, now);
    }
    const EngineState& state = backend->signals().engine();
    engine.run = state.run();
    copy_prefixes(slot, backend, max_prefixes / taken.size(), engine.prefixes);
    if (state.run().start_time != engine.run.start_time || !knows_clears_of(slot, backend)) {
      // They may be of the run before.
      engine.prefixes.clear();
      engine.adapters.clear();
    }
    learned.engines.emplace(backend->id(), std::move(engine));
  }
  return learned;
}

/// True if the scheduler knows whatever emptied the caches of the engine.
bool PoolScheduler::knows_clears_of(std::uint32_t slot, const BackendPtr& backend) const {
  std::lock_guard lock(mutex_);
  return has(slot, backend) &&
         slots_[slot].cache_clears == backend->signals().engine().cache_clears();
}

void PoolScheduler::copy_prefixes(std::uint32_t slot, const BackendPtr& backend, std::size_t most,
                                  std::vector<std::uint64_t>& into) {
  std::array<std::uint64_t, copied_blocks> blocks;
  for (bool is_first = true; into.size() < most; is_first = false) {
    const auto wanted = std::span(blocks).first(std::min(copied_blocks, most - into.size()));
    std::size_t count = 0;
    {
      std::lock_guard lock(mutex_);
      if (!has(slot, backend)) return into.clear();
      if (is_first) scheduler_.prefixes().begin_copy(slot);
      count = scheduler_.prefixes().copy(wanted);
    }
    if (count == 0) return;
    into.insert(into.end(), wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(count));
    if (count == wanted.size()) std::this_thread::sleep_for(copy_pause);
  }
}

void PoolScheduler::restore(const LearnedScheduler& learned, Instant now) {
  {
    std::lock_guard lock(mutex_);
    scheduler_.restore(learned.traffic);
    const double tokens = learned.traffic.tokens_per_event;
    if (tokens >= 1 && tokens <= 100) tokens_per_event_ = tokens;
  }
  std::vector<std::pair<std::uint32_t, BackendPtr>> unknown;
  for (auto& [slot, backend] : taken_slots()) {
    const auto found = learned.engines.find(backend->id());
    if (found == learned.engines.end()) {
      unknown.emplace_back(slot, std::move(backend));
      continue;
    }
    const LearnedEngine& engine = found->second;
    {
      std::lock_guard lock(mutex_);
      scheduler_.restore(slot, engine, now);
      if (engine.run.start_time) slots_[slot].confirm_until = now + confirmation_time;
    }
    if (engine.run != EngineRun{}) backend->signals().engine().resume(engine.run);
    restore_prefixes(slot, engine.prefixes);
  }
  // What was learned of the others is the best guess for those.
  for (const auto& [slot, backend] : unknown) {
    std::lock_guard lock(mutex_);
    scheduler_.add_backend(slot, {.identity = hash_of(backend->id())});
  }
}

void PoolScheduler::continue_from(PoolScheduler& former) {
  Instant now;
  {
    std::lock_guard lock(former.mutex_);
    now = former.last_time_;
  }
  LearnedScheduler learned = former.learned(max_continued_blocks, now);
  // The engines' runs are watched as before: there is nothing to confirm.
  for (auto& [id, engine] : learned.engines) engine.run = {};
  restore(learned, now);
}

/// The oldest first, so that the newest are the last to be evicted.
void PoolScheduler::restore_prefixes(std::uint32_t slot, const std::vector<std::uint64_t>& blocks) {
  std::size_t left = 0;
  {
    std::lock_guard lock(mutex_);
    left = std::min<std::size_t>(blocks.size(), scheduler_.prefixes().capacity(slot));
  }
  while (left > 0) {
    const std::size_t count = std::min(left, restored_blocks);
    left -= count;
    std::lock_guard lock(mutex_);
    scheduler_.prefixes().add(slot, std::span(blocks).subspan(left, count));
  }
}

std::shared_ptr<const void> PoolScheduler::release_index() {
  const auto index = std::make_shared<PrefixIndex>(capacity_, 0);
  const std::lock_guard lock(mutex_);
  std::swap(*index, scheduler_.prefixes());
  return index;
}

void PoolScheduler::forget_caches(const SharedBackend& shared) {
  std::lock_guard lock(mutex_);
  const auto found = slot_of_.find(&shared);
  if (found != slot_of_.end()) scheduler_.backend_cleared(found->second);
}

/// Forgets the restored caches of an engine that has not confirmed its run in time.
void PoolScheduler::forget_unconfirmed(std::uint32_t slot, Instant now) {
  Instant& until = slots_[slot].confirm_until;
  const bool unconfirmed = slots_[slot].backend->signals().engine().is_unconfirmed();
  if (unconfirmed && now < until) return;
  if (unconfirmed) scheduler_.backend_cleared(slot);
  until = never;
}

}  // namespace evenkeel
