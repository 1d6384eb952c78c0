// What happens when an allocation fails.
#pragma once

#include "evenkeel/base/overload.h"

namespace evenkeel {

/// While it exists, a failed `operator new` sets the pressure to `critical`. On a thread that has
/// called `fail_allocations_at_once` it then throws std::bad_alloc. Others, which cannot do
/// without, first use up a reserve of some MiB, and then wait up to 3 s until there is memory
/// again. One at a time.
class MemoryReserve {
 public:
  /// `pressure` outlives it.
  explicit MemoryReserve(MemoryPressureLevel& pressure);
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;
  ~MemoryReserve();

  /// Takes the reserve again if it was used up and there is memory. Thread: one.
  void refill();
};

/// This thread survives a failed allocation: it ends the request that needed the memory.
void fail_allocations_at_once();

}  // namespace evenkeel
