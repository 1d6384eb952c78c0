#include "sim/dynamic_batcher.h"

#include <algorithm>

namespace evenkeel {

DynamicBatcher::DynamicBatcher(const BatchingSpec& spec)
    : spec_(spec), full_batch_items_(spec.max_batch_size) {
  if (!spec.preferred_sizes.empty()) {
    full_batch_items_ = *std::max_element(spec.preferred_sizes.begin(), spec.preferred_sizes.end());
  }
}

void DynamicBatcher::remove(QueuedRequest& request) {
  queue_.erase(std::remove(queue_.begin(), queue_.end(), &request), queue_.end());
}

bool DynamicBatcher::is_preferred(std::uint32_t items) const {
  return std::find(spec_.preferred_sizes.begin(), spec_.preferred_sizes.end(), items) !=
         spec_.preferred_sizes.end();
}

DynamicBatcher::Decision DynamicBatcher::decide(Instant now) const {
  if (queue_.empty()) return {};
  if (spec_.max_batch_size == 0) return {.requests = 1};

  std::uint32_t items = 0;
  std::size_t requests = 0;
  std::size_t best = 0;  // requests that make up the largest preferred size so far
  for (const QueuedRequest* each : queue_) {
    if (items + each->items > spec_.max_batch_size) break;
    items += each->items;
    ++requests;
    if (is_preferred(items)) best = requests;
  }

  const bool delays = spec_.max_queue_delay > Duration::zero();
  const Instant latest = queue_.front()->arrived + spec_.max_queue_delay;
  const bool late = delays && now >= latest;
  if (best > 0 && !late) return {.requests = best};
  const bool cannot_grow = requests < queue_.size() || items >= full_batch_items_;
  if (late || !delays || cannot_grow) return {.requests = requests};
  return {.retry_at = latest};
}

std::vector<QueuedRequest*> DynamicBatcher::take(std::size_t requests) {
  const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(requests);
  std::vector<QueuedRequest*> batch(queue_.begin(), end);
  queue_.erase(queue_.begin(), end);
  return batch;
}

}  // namespace evenkeel
