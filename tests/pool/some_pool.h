// Pools for tests.
#pragma once

#include "evenkeel/pool/lease.h"
#include "evenkeel/pool/pool.h"
#include "picker/picks.h"

namespace evenkeel::testing {

inline PoolSpec some_pool(std::size_t count, std::uint32_t limit, QueueConfig queue = {}) {
  PoolSpec spec;
  spec.config.name = "llama";
  spec.config.limits.queue = queue;
  for (std::size_t number = 0; number < count; ++number) {
    spec.backends.push_back(some_spec(number, 1, limit));
  }
  return spec;
}

}  // namespace evenkeel::testing
