#include "evenkeel/stats/exemplars.h"

#include <algorithm>
#include <memory>

namespace evenkeel {

Exemplars::~Exemplars() { delete slots_.load(std::memory_order_relaxed); }

void Exemplars::record(std::size_t bucket, Duration value, const ObservedTrace& trace) {
  Slots* slots = slots_.load(std::memory_order_relaxed);
  if (slots == nullptr) [[unlikely]] {
    slots = std::make_unique<Slots>().release();
    // Release: a reader that sees the slots sees them constructed.
    slots_.store(slots, std::memory_order_release);
  }
  Exemplar exemplar;
  exemplar.value = std::max<std::int64_t>(value.count(), 0);
  exemplar.time =
      std::chrono::duration_cast<std::chrono::milliseconds>(trace.time.time_since_epoch()).count();
  std::copy_n(trace.trace_id.begin(), std::min(trace.trace_id.size(), exemplar.trace_id.size()),
              exemplar.trace_id.begin());
  (*slots)[bucket].write(&exemplar);
}

void Exemplars::add_to(std::vector<Exemplar>& exemplars) const {
  const Slots* const slots = slots_.load(std::memory_order_acquire);
  if (slots == nullptr) return;
  exemplars.resize(max_buckets);
  for (std::size_t i = 0; i < max_buckets; ++i) {
    Exemplar exemplar;
    if ((*slots)[i].read(&exemplar) && exemplar.time > exemplars[i].time) exemplars[i] = exemplar;
  }
}

void Exemplars::clear() {
  Slots* const slots = slots_.load(std::memory_order_acquire);
  if (slots == nullptr) return;
  const Exemplar none;
  for (auto& slot : *slots) slot.write(&none);
}

}  // namespace evenkeel
