// What a scheduler passes to the one of another process.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>

#include "evenkeel/scheduler/learned_scheduler.h"
#include "evenkeel/scheduler/scheduler.h"
#include "scheduler/scheduler_state.h"

namespace evenkeel {
namespace {

static_assert(Scheduler::max_learned_adapters == AdapterCache::capacity);
static_assert(Scheduler::max_learned_classes == OutputLengths::max_classes);
static_assert(Scheduler::max_learned_lengths == OutputLengths::history);

constexpr Duration max_cache_age = std::chrono::minutes(1);  // of an engine that may have restarted
constexpr Duration max_known_cache_age = std::chrono::hours(1);  // of one that will tell whether
constexpr Duration max_speed_age = std::chrono::hours(24);

constexpr double max_mean_prefill = 3600;  // seconds
constexpr std::uint64_t max_kv_tokens = 1'000'000'000;

/// A share that may be any number.
double share_of(double number) { return number >= 0 && number <= 1 ? number : 0.5; }

}  // namespace

void age(LearnedEngine& learned, Duration passed) {
  if (passed < Duration{} || passed > max_speed_age) learned = {};
  const bool tells_restarts = learned.run.start_time.has_value();
  if (passed > (tells_restarts ? max_known_cache_age : max_cache_age)) {
    learned.run = {};
    learned.adapters.clear();
    learned.prefixes.clear();
  }
  for (LearnedEngine::Adapter& each : learned.adapters) each.age += seconds_of(passed);
}

void Scheduler::learned(std::uint32_t slot, LearnedEngine& into, Instant now) const {
  const ScheduledBackend& backend = state_->backends[slot];
  backend.ledger.learned(into);
  into.kv_tokens = backend.facts.kv_tokens;
  into.step_tokens = backend.facts.step_tokens;
  into.index_capacity = backend.index_capacity;
  into.tokens_per_block = backend.tokens_per_block;
  into.confirms_hits = backend.confirms_hits;
  into.streams = backend.streams;
  into.has_blocks = backend.has_blocks;
  for (const AdapterCache::Entry& each : backend.adapters.entries()) {
    const double age = std::max(0.0, seconds_since_epoch(now) - each.used_at);
    into.adapters.push_back({.name = each.adapter, .age = age});
  }
}

void Scheduler::learned(LearnedTraffic& into) const {
  into.mean_prefill = state_->mean_prefill;
  state_->remainder.learned(into);
  state_->lengths.learned(into);
}

void Scheduler::restore(std::uint32_t slot, const LearnedEngine& learned, Instant now) {
  ScheduledBackend& backend = state_->backends[slot];
  backend.ledger.restore(learned);
  if (learned.kv_tokens <= max_kv_tokens) describe(slot, learned.kv_tokens, learned.step_tokens);
  if (learned.tokens_per_block >= 1 && learned.tokens_per_block <= max_tokens_per_block) {
    backend.tokens_per_block = learned.tokens_per_block;
    if (learned.index_capacity >= 1) state_->set_index_capacity(slot, learned.index_capacity);
  }
  backend.confirms_hits = share_of(learned.confirms_hits);
  backend.streams = share_of(learned.streams);
  backend.has_blocks = share_of(learned.has_blocks);
  for (std::size_t i = learned.adapters.size(); i-- > 0;) {
    const LearnedEngine::Adapter& each = learned.adapters[i];
    if (each.name != 0 && each.age >= 0)
      backend.adapters.used(each.name, seconds_since_epoch(now) - each.age);
  }
}

void Scheduler::restore(const LearnedTraffic& learned) {
  if (learned.mean_prefill > 0 && learned.mean_prefill <= max_mean_prefill)
    state_->mean_prefill = learned.mean_prefill;
  state_->remainder.restore(learned);
  state_->lengths.restore(learned);
}

}  // namespace evenkeel
