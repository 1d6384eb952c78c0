// In which of the states that the admin API and the metrics tell each backend is, and since when.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/balance/backend.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/proxy/plan.h"

namespace evenkeel {

struct BackendStatus;

/// One of `backend_states` (stats/exposition.h). Where several hold, what somebody wants comes
/// before what is found out.
std::string_view state_of(const Backend& backend, Instant now);

/// Why it is not up, for people; empty: it is. `watched`: what its checks found, null if nobody
/// knows.
std::string reason_of(const Backend& backend, const BackendStatus* backend_status, Instant now);

/// Remembers when each backend came into its state, as precisely as it is made to look.
class BackendStateHistory {
 public:
  using Time = std::chrono::system_clock::time_point;

  /// Compares with what was seen last. Backends that were there before keep their times when the
  /// fleet is another.
  void update(const std::shared_ptr<const PoolSet>& pool_set, Instant now, Time time);

  /// By places in the fleet that was looked at last.
  Time since(std::size_t pool, std::size_t backend) const { return entries_[pool][backend].since; }

 private:
  struct Entry {
    std::string_view state;
    Time since;
  };
  void carry_over(const std::shared_ptr<const PoolSet>& pool_set);

  std::shared_ptr<const PoolSet> pool_set_;
  std::vector<std::vector<Entry>> entries_;  // as the fleet's backends
};

}  // namespace evenkeel
