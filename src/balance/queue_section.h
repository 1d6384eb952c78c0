// Part of a pool's queue: the requests that wait for the same backends.
#pragma once

#include <array>
#include <cstdint>

#include "balance/client_shares.h"
#include "evenkeel/balance/backend.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/priority.h"

namespace evenkeel {

class PoolState;

/// Requests for any backend of one version of a pool, or for one of its subsets. While there are
/// some, the section is in the queue's list.
///
/// Guarded by the queue's mutex, except for the constants.
struct QueueSection : Node {
  /// A bit for each subset: backends have those of their subsets (Load::queue_marks). Two subsets
  /// may share one, then requests look into the queue more often than they need to.
  static constexpr std::uint64_t whole_pool = 1;

  QueueSection(const PoolState& pool, std::uint32_t number, std::uint64_t subset_mark)
      : state(pool), subset(number), mark(subset_mark) {}

  /// They are for the same subset, perhaps of different versions of the pool.
  bool is_for_same_as(const QueueSection& other) const;

  const PoolState& state;
  const std::uint32_t subset;  // PoolState::subset_number
  const std::uint64_t mark;

  std::array<Node, priority_count> lines;  // of requests, by priority
  std::uint32_t length = 0;
  ClientShares clients;  // of these
  Instant last_recheck{};

  // While slots are dispatched: whose they are, null if none of these may use them; who is next.
  const BackendPtr* offered = nullptr;
  std::array<Node*, priority_count> next_in_line{};
};

}  // namespace evenkeel
