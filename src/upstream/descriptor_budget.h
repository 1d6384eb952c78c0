// Whether this process may open enough descriptors to monitor its backends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Compares needs with RLIMIT_NOFILE and warns, seldom, if they exceed it.
class DescriptorBudget {
 public:
  /// True if monitoring may keep its two connections per backend, for checks and polls, open
  /// between requests, which may take a quarter of all descriptors. `max_client_connections`: over
  /// all listeners; 0: unlimited.
  bool may_keep_links(std::size_t backends, std::size_t max_client_connections);
  /// `blocked_locally`: monitoring requests so far that could not be sent.
  void note_blocked(std::uint64_t blocked_locally, Instant now);

 private:
  std::size_t reported_need_ = 0;
  std::uint64_t blocked_locally_ = 0;
  Instant next_warning_{};
};

}  // namespace evenkeel
