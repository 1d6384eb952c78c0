#include "sim/dynamic_batcher.h"

#include <algorithm>

namespace evenkeel {

DynamicBatcher::DynamicBatcher(const BatchingSpec& spec)
    : spec_(spec), largest_wanted_(spec.max_batch_size) {
  if (!spec.preferred_sizes.empty()) {
    largest_wanted_ = *std::max_element(spec.preferred_sizes.begin(), spec.preferred_sizes.end());
  }
}

void DynamicBatcher::remove(Queued& request) {
  queue_.erase(std::remove(queue_.begin(), queue_.end(), &request), queue_.end());
}

bool DynamicBatcher::preferred(std::uint32_t items) const {
  return std::find(spec_.preferred_sizes.begin(), spec_.preferred_sizes.end(), items) !=
         spec_.preferred_sizes.end();
}

DynamicBatcher::Decision DynamicBatcher::decide(Instant now) const {
  if (queue_.empty()) return {};
  if (spec_.max_batch_size == 0) return {.requests = 1};

  std::uint32_t items = 0;
  std::size_t requests = 0;
  std::size_t best = 0;  // requests that come to a preferred size, the largest there is
  for (const Queued* each : queue_) {
    if (items + each->items > spec_.max_batch_size) break;
    items += each->items;
    ++requests;
    if (preferred(items)) best = requests;
  }

  const bool delays = spec_.max_queue_delay > Duration::zero();
  const Instant latest = queue_.front()->arrived + spec_.max_queue_delay;
  const bool late = delays && now >= latest;
  if (best > 0 && !late) return {.requests = best};
  const bool cannot_grow = requests < queue_.size() || items >= largest_wanted_;
  if (late || !delays || cannot_grow) return {.requests = requests};
  return {.again = latest};
}

std::vector<Queued*> DynamicBatcher::take(std::size_t requests) {
  const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(requests);
  std::vector<Queued*> batch(queue_.begin(), end);
  queue_.erase(queue_.begin(), end);
  return batch;
}

}  // namespace evenkeel
