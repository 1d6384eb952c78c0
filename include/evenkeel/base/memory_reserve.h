// What happens when an allocation fails.
#pragma once

#include "evenkeel/base/overload.h"

namespace evenkeel {

/// Handles failed allocations while it exists: a failed `operator new` sets the pressure to
/// `critical`. On a thread that has called `fail_allocations_at_once` it then throws
/// std::bad_alloc. Others, which cannot do without, first use up a reserve of some MiB, and then
/// wait up to 3 s until there is memory again. One at a time.
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

/// Makes a failed allocation on its thread throw std::bad_alloc instead of waiting for memory,
/// while it exists. For the time of a lock that other threads need to free memory.
class NoWaitForMemory {
 public:
  NoWaitForMemory();
  NoWaitForMemory(const NoWaitForMemory&) = delete;
  NoWaitForMemory& operator=(const NoWaitForMemory&) = delete;
  ~NoWaitForMemory();

 private:
  bool before_;
};

/// True if this thread survives a failed allocation: it ends the request that needed the memory.
void fail_allocations_at_once();

}  // namespace evenkeel
