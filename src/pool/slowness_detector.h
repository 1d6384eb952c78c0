// Finds the backends that are much slower than the others of their pool, for operators.
#pragma once

#include <array>
#include <cstdint>

#include "evenkeel/base/clock.h"
#include "evenkeel/pool/pool.h"
#include "pool/backend_records.h"

namespace evenkeel {

/// Compares the medians of each backend with those of the others, and logs when a backend becomes
/// slow (three times the median of the others' time per token, four times their time to the first
/// token) and when it no longer is (two times, or without a sample in the last minute). Pickers do
/// not go by it. Also counts how many of the pool's picks each backend gets.
///
/// Thread: the control thread's.
class SlownessDetector {
 public:
  void tick(const PoolState& pool, Instant now);

 private:
  struct Record {
    std::uint64_t picks = 0;
    double recent_picks = 0;
    int confirmations = 0;  // ticks in a row in which it was what it was not before
  };

  void compare(const PoolState& pool, Instant now);
  void count_picks(const PoolState& pool);
  void update(const PoolState& pool, const Backend& backend, Slowness seen);

  Instant last_tick_{};
  BackendRecords<Record> records_;
  double recent_picks_ = 0;
};

}  // namespace evenkeel
