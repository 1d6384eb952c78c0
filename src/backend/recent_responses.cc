#include "evenkeel/backend/recent_responses.h"

#include <algorithm>
#include <cmath>

namespace evenkeel {
namespace {

constexpr std::uint64_t min_median_samples = 20;
constexpr std::int64_t failure_slots = 3;  // the current one included

/// The index of the bucket that holds this share of the counts. REQUIRES: `sum` is their sum and
/// above 0.
template <class Counts>
std::size_t quantile(const Counts& counts, std::uint64_t sum, double share) {
  const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(sum)));
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < counts.size(); ++bucket) {
    seen += counts[bucket];
    if (seen >= rank) return bucket;
  }
  return counts.size() - 1;
}

}  // namespace

Duration RecentResponses::duration_of(std::size_t bucket) {
  const double log2 = min_log2 + static_cast<double>(bucket / 4);
  const double quarter = 1 + (static_cast<double>(bucket % 4) + 0.5) / 4;
  return Duration(static_cast<Duration::rep>(std::exp2(log2) * quarter));
}

void RecentResponses::restart(Slot& slot, std::int64_t number) {
  std::int64_t seen = slot.number.load(std::memory_order_relaxed);
  // A worker whose time is slightly behind counts in the newer slot.
  if (seen >= number) return;
  if (!slot.number.compare_exchange_strong(seen, number, std::memory_order_relaxed)) return;
  slot.failures.store(0, std::memory_order_relaxed);
  for (auto& count : slot.first_byte) count.store(0, std::memory_order_relaxed);
  for (auto& count : slot.total) count.store(0, std::memory_order_relaxed);
  for (auto& count : slot.per_token) count.store(0, std::memory_order_relaxed);
}

RecentLatency RecentResponses::latency(std::int64_t now, Buckets Slot::* which) const {
  RecentLatency result;
  std::array<std::uint64_t, bucket_count> counts{};
  std::uint64_t sum = 0;
  for (std::int64_t number = now; number > now - static_cast<std::int64_t>(slot_count); --number) {
    if (number < 0) break;
    const Slot& slot = slots_[static_cast<std::size_t>(number) % slot_count];
    if (slot.number.load(std::memory_order_relaxed) == number) {
      for (std::size_t bucket = 0; bucket < bucket_count; ++bucket) {
        const std::uint32_t count = (slot.*which)[bucket].load(std::memory_order_relaxed);
        counts[bucket] += count;
        sum += count;
      }
    }
    if (!result.median && sum >= min_median_samples) {
      result.median = duration_of(quantile(counts, sum, 0.5));
    }
  }
  result.samples = sum;
  if (sum == 0) return result;
  if (!result.median) result.median = duration_of(quantile(counts, sum, 0.5));
  result.p99 = duration_of(quantile(counts, sum, 0.99));
  return result;
}

RecentSummary RecentResponses::summary(Instant now) const {
  const std::int64_t current = slot_number(now);
  RecentSummary result;
  result.first_byte = latency(current, &Slot::first_byte);
  result.total = latency(current, &Slot::total);
  result.per_token = latency(current, &Slot::per_token);
  std::uint64_t failures = 0;
  for (std::int64_t number = current; number > current - failure_slots && number >= 0; --number) {
    const Slot& slot = slots_[static_cast<std::size_t>(number) % slot_count];
    if (slot.number.load(std::memory_order_relaxed) != number) continue;
    failures += slot.failures.load(std::memory_order_relaxed);
  }
  const double covered =
      seconds_of(now.time_since_epoch() - (current - failure_slots + 1) * slot_time);
  result.failures_per_second = static_cast<double>(failures) / covered;
  return result;
}

}  // namespace evenkeel
