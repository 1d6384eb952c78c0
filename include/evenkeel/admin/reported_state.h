// The state of each backend as the admin API and the metrics report it, and since when.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/backend/backend.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

struct BackendStatus;

/// The states of a backend, in the order of their series.
inline constexpr std::string_view backend_states[] = {"up",      "down",    "starting", "draining",
                                                      "standby", "ejected", "sleeping"};

/// Returns one of `backend_states`. Where several hold, what an operator set comes before what was
/// found out.
std::string_view state_of(const Backend& backend, Instant now);

/// Why it is not up, is slow, or gets fewer requests than others; for people, empty if none holds.
/// `pool`: its own; `backend_status`: what the monitor knows, or null.
std::string reason_of(const PoolState& pool, const Backend& backend,
                      const BackendStatus* backend_status, Instant now);

/// Remembers when each backend entered its state, as precisely as `update` is called.
class BackendStateHistory {
 public:
  using Time = std::chrono::system_clock::time_point;

  /// A backend that has entered another state, by its position in the pool set.
  struct Change {
    std::size_t pool = 0;
    std::size_t backend = 0;
    std::string_view from;  ///< never empty: a new backend has not changed
    std::string_view to;
  };

  /// Returns what differs from the last call. A backend keeps its time when the pool set changes.
  std::vector<Change> update(const std::shared_ptr<const PoolSet>& pool_set, Instant now,
                             Time time);

  /// Returns the time by position in the pool set of the last `update`.
  Time since(std::size_t pool, std::size_t backend) const { return entries_[pool][backend].since; }

 private:
  struct Entry {
    std::string_view state;
    Time since;
  };
  void carry_over(const std::shared_ptr<const PoolSet>& pool_set);

  std::shared_ptr<const PoolSet> pool_set_;
  std::vector<std::vector<Entry>> entries_;  // by pool and backend
};

}  // namespace evenkeel
