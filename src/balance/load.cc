#include "evenkeel/balance/load.h"

#include <algorithm>

namespace evenkeel {

void Load::back_off(Instant now) {
  Duration::rep until = live_.backoff_until.load(std::memory_order_relaxed);
  const Duration::rep current = now.time_since_epoch().count();
  if (until != 0 && current < until) return;

  const std::uint32_t failures = live_.connect_failures.load(std::memory_order_relaxed);
  const Duration wait = std::min(initial_backoff * (1 << std::min(failures, 8u)), max_backoff);
  const Duration::rep next = std::max<Duration::rep>(current + wait.count(), 1);
  if (live_.backoff_until.compare_exchange_strong(until, next, std::memory_order_relaxed)) {
    live_.connect_failures.fetch_add(1, std::memory_order_relaxed);
  }
}

bool Load::recover() {
  if (!needs_trial()) return false;
  live_.connect_failures.store(0, std::memory_order_relaxed);
  return live_.backoff_until.exchange(0, std::memory_order_relaxed) != 0;
}

std::uint64_t Load::errors_total() const {
  std::uint64_t sum = 0;
  for (const auto& count : errors_) sum += count.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace evenkeel
