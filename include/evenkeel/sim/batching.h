// How a model is run in batches, after Triton's config.pbtxt, and what a batch costs.
#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/base/clock.h"

namespace evenkeel {

struct BatchingSpec {
  std::uint32_t max_batch_size = 8;            ///< items; 0: each request is run by itself
  std::vector<std::uint32_t> preferred_sizes;  ///< items; a batch of such a size starts at once
  Duration max_queue_delay{};  ///< how long a request waits for others while an instance is free
  std::uint32_t max_queue_size = 0;  ///< waiting requests; 0: no limit
  std::uint32_t instances = 1;       ///< batches at a time
  double batch_seconds = 2e-3;       ///< compute time of a batch,
  double item_seconds = 0.5e-3;      ///< plus this for each of its items
};

}  // namespace evenkeel
