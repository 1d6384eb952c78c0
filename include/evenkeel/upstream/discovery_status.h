// How the discovery of a pool's backends fares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "evenkeel/base/clock.h"

namespace evenkeel {

struct DiscoveryStatus {
  std::string pool;
  std::size_t backends = 0;          ///< that are known by it
  std::optional<Instant> last_good;  ///< when its source last confirmed that; nothing: never
  std::uint64_t failures = 0;        ///< requests and lists that were no good
  std::uint64_t held = 0;            ///< lists that had shrunk so much that they were read again
  std::string problem;               ///< of its source, now; empty: none

  bool operator==(const DiscoveryStatus&) const = default;
};

}  // namespace evenkeel
