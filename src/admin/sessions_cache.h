// What the tables of sessions held a moment ago, shared by everyone who asks.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "admin/cached.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/pool/pool.h"

namespace evenkeel {

/// Sessions of a pool that a document lists at most.
inline constexpr std::size_t max_listed_sessions = 1000;

/// The sessions of a pool, with the `max_listed_sessions` that were used last.
struct PoolSessions {
  AffinityStats stats;
  SessionListing listing;
};
using PoolSessionsPtr = std::shared_ptr<const PoolSessions>;

/// Looks at the table of a pool, and keeps what it has seen for two seconds, or for longer if that
/// took long: a table of millions costs at most a fiftieth of the control thread, however many
/// clients ask.
///
/// Thread: the control thread, which frees the tables of former sizes.
class SessionsCache {
 public:
  static constexpr Duration min_age = std::chrono::seconds(2);

  explicit SessionsCache(std::function<Instant()> now = &Clock::now) : now_(std::move(now)) {}

  /// Returns what is known of a pool with sessions.
  PoolSessionsPtr sessions_of(const std::shared_ptr<const PoolState>& pool);

 private:
  struct Entry {
    std::weak_ptr<const PoolState> pool;
    Cached<PoolSessionsPtr> sessions;
  };

  std::function<Instant()> now_;
  std::vector<Entry> entries_;  // of the pools that were asked for
};

}  // namespace evenkeel
