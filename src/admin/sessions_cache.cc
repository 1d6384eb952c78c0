#include "admin/sessions_cache.h"

#include <algorithm>

namespace evenkeel {
namespace {

Duration lifetime(Duration took) { return std::max(SessionsCache::min_age, 50 * took); }

}  // namespace

PoolSessionsPtr SessionsCache::sessions_of(const std::shared_ptr<const PoolState>& pool) {
  std::erase_if(entries_, [](const Entry& each) { return each.pool.expired(); });
  auto entry = std::find_if(entries_.begin(), entries_.end(),
                            [&](const Entry& each) { return each.pool.lock() == pool; });
  if (entry == entries_.end()) entry = entries_.insert(entry, Entry{.pool = pool});
  const Affinity& affinity = *pool->affinity();
  const auto look = [&] {
    return std::make_shared<PoolSessions>(PoolSessions{
        .stats = affinity.stats(), .listing = affinity.list(max_listed_sessions, now_())});
  };
  return entry->sessions.get(look, lifetime, now_);
}

}  // namespace evenkeel
