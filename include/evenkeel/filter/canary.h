// Tells the trials of canaries what became of their requests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/filter/by_route.h"
#include "evenkeel/http/message.h"
#include "evenkeel/stats/canary_trial.h"

namespace evenkeel {

/// The canary of a route.
struct RouteCanary {
  std::shared_ptr<CanaryTrial> trial;
  std::string route;
  std::string target;                           ///< as `split` names it
  std::string pool;                             ///< that the target is, or is of
  std::set<std::string, std::less<>> backends;  ///< of a part of the pool: addresses; else empty
  std::function<bool()> is_served;  ///< true if a backend of that part is in rotation; else empty
  std::uint32_t number = 0;         ///< of the target among those of the route
};

/// Thread: any.
class CanaryCounter {
 public:
  explicit CanaryCounter(ByRoute<RouteCanary> canaries) : canaries_(std::move(canaries)) {}

  /// True if no route has a canary.
  bool empty() const { return canaries_.empty(); }
  /// A request has ended. What its client has broken off counts only if it had waited too long. The
  /// answer that ends a trial is logged.
  void count(const RequestInfo& info, Instant ended) const;

 private:
  ByRoute<RouteCanary> canaries_;
};

}  // namespace evenkeel
