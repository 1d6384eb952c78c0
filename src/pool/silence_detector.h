// Notices backends that hang, from the requests that they leave unanswered.
#pragma once

#include <cstdint>

#include "evenkeel/base/clock.h"
#include "evenkeel/pool/pool.h"
#include "pool/backend_records.h"

namespace evenkeel {

/// Serves pools without health checks that a hung server would fail. A backend is silent if it has
/// two requests or more whose bodies it need not wait for, one of them got since it answered last
/// or in the same tick, and answers none within
///
///   max(2 s, 5 * the highest average time to the first byte of the others)
///
/// in which the others answer at least two. The pickers then avoid it. One request at a time is its
/// trial, at intervals that double up to 30 s, and any answer ends the silence. A backend that is
/// only slow is found silent too; it keeps its requests, and new ones go to backends that answer.
///
/// Thread: the control thread's.
class SilenceDetector {
 public:
  void tick(const PoolState& pool, Instant now);

 private:
  /// What is known of a backend since it answered last.
  struct Record {
    std::uint64_t answers = 0;
    std::uint64_t picks = 0;       // before the tick of its last answer, or when it was last idle
    std::uint64_t last_picks = 0;  // at the last tick
    bool has_waiting = false;      // two requests or more, and one that it got after `picks`
    Instant waiting_since{};       // since then it has them
    std::uint64_t peers_answers = 0;  // until then
    bool reported = false;            // as silent, in the log
  };

  void clear(const Backends& backends);

  BackendRecords<Record> records_;
};

}  // namespace evenkeel
