// How a model is run in batches, as its config.pbtxt tells Triton, and what a batch costs.
#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/base/clock.h"

namespace evenkeel {

struct BatchingSpec {
  std::uint32_t max_batch_size = 8;            ///< items; 0: each request is run by itself
  std::vector<std::uint32_t> preferred_sizes;  ///< items; run as soon as one is reached
  Duration max_queue_delay{};  ///< how long a request may wait for others when an instance is free
  std::uint32_t max_queue_size = 0;  ///< requests that wait; 0: any number
  std::uint32_t instances = 1;       ///< batches at a time
  double batch_seconds = 2e-3;       ///< of compute: a batch costs
  double item_seconds = 0.5e-3;      ///< so much, and so much more for each item
};

}  // namespace evenkeel
