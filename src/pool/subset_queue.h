// Part of a pool's queue: the requests that wait for the same backends.
#pragma once

#include <array>
#include <cstdint>

#include "evenkeel/backend/backend.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/priority.h"
#include "evenkeel/scheduler/scheduler.h"
#include "pool/admission_rule.h"
#include "pool/client_shares.h"

namespace evenkeel {

class PoolState;

/// Requests for any backend of one version of a pool, or for those of one of its subsets, that one
/// rule starts. While there are some, it is in the list of its Admission.
///
/// Guarded by the lock of the Admission, except for the constants.
struct SubsetQueue : Node {
  /// Bits for the requests that wait: backends have those of the subsets that they serve
  /// (Slots::queue_marks). Two subsets may share a bit; then slots are offered more often than
  /// needed.
  static constexpr std::uint64_t whole_pool = 1;
  /// The bit of requests that a scheduler starts. No backend has it: no free slot starts them.
  static constexpr std::uint64_t scheduled = std::uint64_t{1} << 63;

  SubsetQueue(const PoolState& pool, std::uint32_t number, std::uint64_t own_mark,
              AdmissionRule& own_rule)
      : state(pool), subset(number), mark(own_mark), rule(own_rule) {}

  /// True if both are for the same subset, perhaps of different versions of the pool.
  bool is_for_same_as(const SubsetQueue& other) const;

  const PoolState& state;
  const std::uint32_t subset;  // its number in the BackendSet
  const std::uint64_t mark;
  AdmissionRule& rule;
  SlotSet slots;  // of the backends, where a scheduler starts the requests

  std::array<Node, priority_count> lines;  // of AdmissionTicket, by priority, in order of rank
  std::uint32_t length = 0;
  ClientShares clients;  // of these requests
  Instant last_recheck{};

  // The backend whose slot is offered, null if none of these may use it; the next in each line.
  const BackendPtr* offered = nullptr;
  std::array<Node*, priority_count> next_in_line{};
};

}  // namespace evenkeel
