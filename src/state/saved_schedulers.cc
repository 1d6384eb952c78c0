#include "evenkeel/state/saved_schedulers.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace evenkeel {
namespace {

void add_sessions(SavedState& state, const PoolSet& pool_set, Instant now) {
  for (const PoolSet::PoolEntry& entry : pool_set.pools()) {
    if (entry.state->affinity() == nullptr) continue;
    auto sessions = entry.state->affinity()->saved(now);
    if (sessions.empty()) continue;
    if (sessions.size() > max_saved_sessions) {
      const auto end = sessions.begin() + max_saved_sessions;
      std::ranges::nth_element(sessions, end, {}, [](const AffinityTable::Saved& each) {
        return std::pair(!each.confirmed, each.idle);
      });
      sessions.erase(end, sessions.end());
    }
    state.sessions[entry.state->config().name] = std::move(sessions);
  }
}

}  // namespace

void add_schedulers(SavedState& state, const PoolSet& pool_set, std::size_t max_prefixes,
                    Instant now) {
  state.tokenizers = pool_set.token_estimates().learned();
  if (const LimitUse* const use = pool_set.limit_use())
    state.quotas = use->saved(QuotaTime::current());
  for (const PoolSet::Canary& canary : pool_set.canaries()) {
    if (canary.trial->has_ended()) state.ended_trials[canary.key()] = canary.trial->verdict();
  }
  if (max_prefixes > 0) add_sessions(state, pool_set, now);
  const auto scheduled = std::ranges::count_if(pool_set.pools(), [](const auto& entry) {
    return entry.state->config().picker.has_scheduler();
  });
  if (scheduled == 0) return;
  for (const PoolSet::PoolEntry& entry : pool_set.pools()) {
    const std::size_t share = max_prefixes / static_cast<std::size_t>(scheduled);
    if (entry.state->scheduled() == nullptr) continue;
    LearnedScheduler learned = entry.state->scheduled()->learned(share, now);
    const std::string& pool = entry.state->config().name;
    state.traffic[pool] = std::move(learned.traffic);
    for (auto& [backend, engine] : learned.engines)
      state.engines[{pool, backend}] = std::move(engine);
  }
}

void age_schedulers(SavedState& state, Duration passed) {
  for (auto& [key, engine] : state.engines) age(engine, passed);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(passed);
  for (auto& [pool, sessions] : state.sessions) {
    for (AffinityTable::Saved& each : sessions) each.idle += std::max(seconds, {});
  }
}

void restore_sessions(const SavedState& state, const PoolSet& pool_set, Instant now) {
  for (const PoolSet::PoolEntry& entry : pool_set.pools()) {
    const auto found = state.sessions.find(entry.state->config().name);
    Affinity* const affinity = entry.state->affinity();
    if (affinity != nullptr && found != state.sessions.end()) affinity->restore(found->second, now);
  }
}

void restore_schedulers(SavedState state, const PoolSet& pool_set, Instant now) {
  pool_set.token_estimates().restore(state.tokenizers);
  if (LimitUse* const use = pool_set.limit_use()) use->restore(state.quotas, QuotaTime::current());
  for (const PoolSet::Canary& canary : pool_set.canaries()) {
    const auto ended = state.ended_trials.find(canary.key());
    if (ended != state.ended_trials.end()) canary.trial->end(ended->second);
  }
  for (const PoolSet::PoolEntry& entry : pool_set.pools()) {
    if (entry.state->scheduled() == nullptr) continue;
    const std::string& pool = entry.state->config().name;
    LearnedScheduler learned;
    if (const auto found = state.traffic.find(pool); found != state.traffic.end())
      learned.traffic = std::move(found->second);
    for (const BackendPtr& backend : entry.state->backends()) {
      const auto found = state.engines.find({pool, backend->id()});
      if (found != state.engines.end()) learned.engines[backend->id()] = std::move(found->second);
    }
    if (!learned.engines.empty()) entry.state->scheduled()->restore(learned, now);
  }
}

void forget_caches_of_absent(const PoolSet& pool_set) {
  for (const PoolSet::PoolEntry& entry : pool_set.pools()) {
    if (entry.state->scheduled() != nullptr) entry.state->scheduled()->forget_caches_of_absent();
  }
}

}  // namespace evenkeel
