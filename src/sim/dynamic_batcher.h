// Triton's dynamic batcher: which waiting requests form the next batch, and when.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "evenkeel/sim/simulators.h"

namespace evenkeel {

/// A request that waits for its batch.
struct QueuedRequest {
  std::uint32_t items = 1;  ///< its own batch dimension
  Instant arrived{};
};

/// Arithmetic without a clock of its own. After DynamicBatchScheduler::GetDynamicBatch of
/// triton-inference-server/core: requests are taken in their order and never split; a batch is run
/// when it has one of the preferred sizes, when it cannot grow, or when its first request has
/// waited for max_queue_delay.
class DynamicBatcher {
 public:
  explicit DynamicBatcher(const BatchingSpec& spec);

  bool full() const { return spec_.max_queue_size > 0 && queue_.size() >= spec_.max_queue_size; }
  std::size_t waiting() const { return queue_.size(); }
  /// True if a batch can hold so many items.
  bool fits(std::uint32_t items) const {
    return spec_.max_batch_size == 0 || items <= spec_.max_batch_size;
  }

  /// REQUIRES: the request fits, and lives until it is taken or removed.
  void add(QueuedRequest& request) { queue_.push_back(&request); }
  void remove(QueuedRequest& request);

  /// What a free instance does next.
  struct Decision {
    std::size_t requests = 0;  ///< from the front; 0: none yet
    Instant retry_at = never;  ///< with 0: when to decide again, unless a request is added before
  };
  Decision decide(Instant now) const;
  std::vector<QueuedRequest*> take(std::size_t requests);

  /// How long a batch takes.
  double batch_seconds_for(std::uint32_t items) const {
    return spec_.batch_seconds + spec_.item_seconds * items;
  }

 private:
  bool is_preferred(std::uint32_t items) const;

  BatchingSpec spec_;
  std::uint32_t full_batch_items_;  // a batch of this size starts without waiting
  std::deque<QueuedRequest*> queue_;
};

}  // namespace evenkeel
