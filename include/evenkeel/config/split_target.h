// The targets of a split by name.
#pragma once

#include <cstddef>
#include <string>

#include "evenkeel/config/config.h"

namespace evenkeel {

/// The name of a target in `split`: its labels, such as "version=v8", or its pool.
inline std::string name_of(const RouteTarget& target) {
  return target.labels.empty() ? target.pool : selector_of(target.labels);
}

/// The position of the route's canary among its targets. REQUIRES: it has one.
inline std::size_t canary_target_of(const RouteConfig& route) {
  std::size_t number = 0;
  while (number + 1 < route.targets.size() &&
         name_of(route.targets[number]) != route.canary->target)
    ++number;
  return number;
}

}  // namespace evenkeel
