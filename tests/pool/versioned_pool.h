// A pool of two versions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "evenkeel/pool/subset.h"
#include "pool/some_pool.h"

namespace evenkeel::testing {

inline const SubsetSpec v7{.any_of = {{{"version", "v7"}}}};
inline const SubsetSpec v8{.any_of = {{{"version", "v8"}}}};
inline const SubsetSpec both{.any_of = {{{"version", "v7"}}, {{"version", "v8"}}}};

/// The last `canaries` backends are v8, the others v7.
inline PoolSpec versioned_pool(std::size_t count, std::size_t canaries, std::uint32_t limit = 0,
                               QueueConfig queue = {}) {
  PoolSpec spec = some_pool(count, limit, queue);
  for (std::size_t i = 0; i < count; ++i) {
    spec.backends[i].config.labels["version"] = i + canaries < count ? "v7" : "v8";
  }
  spec.subsets = {v7, v8, both};
  return spec;
}

}  // namespace evenkeel::testing
