// How fast a backend was in the last minute, for operators.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Percentiles of the last minute's successes; empty without any.
struct RecentLatency {
  /// The median of the newest responses: of the current slot and of as many before as give it 20
  /// responses. A busy backend that becomes slow shows it within seconds.
  std::optional<Duration> median;
  std::optional<Duration> p99;  ///< of the whole minute
  std::uint64_t samples = 0;    ///< of the whole minute
};

struct RecentSummary {
  RecentLatency first_byte;
  RecentLatency total;
  RecentLatency per_token;         ///< of streams: between two tokens
  double failures_per_second = 0;  ///< over the last ten to fifteen seconds
};

/// Histograms of the last minute in twelve slots of five seconds, each for a range of time that
/// the clock determines. Buckets are a quarter of an octave wide, so a percentile is off by at most
/// 10 %. About 13 kB.
///
/// A response costs one atomic addition. While one writer clears an expired slot, what another
/// counts in it may be lost. Thread: any.
class RecentResponses {
 public:
  static constexpr Duration slot_time = std::chrono::seconds(5);
  static constexpr std::size_t slot_count = 12;

  void count_first_byte(Duration took, Instant now) {
    current(now).first_byte[bucket_of(took)].fetch_add(1, std::memory_order_relaxed);
  }
  void count_total(Duration took, Instant now) {
    current(now).total[bucket_of(took)].fetch_add(1, std::memory_order_relaxed);
  }
  void count_per_token(Duration took, Instant now) {
    current(now).per_token[bucket_of(took)].fetch_add(1, std::memory_order_relaxed);
  }
  void count_failure(Instant now) { current(now).failures.fetch_add(1, std::memory_order_relaxed); }

  RecentSummary summary(Instant now) const;

 private:
  // Buckets from 2^17 ns (131 us) to 2^39 ns (9 minutes), four per octave.
  static constexpr int min_log2 = 17;
  static constexpr int max_log2 = 39;
  static constexpr std::size_t bucket_count = 4 * (max_log2 - min_log2);
  using Buckets = std::array<std::atomic<std::uint32_t>, bucket_count>;

  struct Slot {
    std::atomic<std::int64_t> number{-1};  // of its range of time; -1: never used
    std::atomic<std::uint32_t> failures{0};
    Buckets first_byte{};
    Buckets total{};
    Buckets per_token{};
  };

  static std::size_t bucket_of(Duration took) {
    if (took.count() < std::int64_t{1} << min_log2) return 0;
    const auto ticks = static_cast<std::uint64_t>(took.count());
    const int log2 = static_cast<int>(std::bit_width(ticks)) - 1;
    if (log2 >= max_log2) return bucket_count - 1;
    const std::uint64_t quarter = ticks >> (log2 - 2) & 3;
    return static_cast<std::size_t>(4 * (log2 - min_log2)) + quarter;
  }
  /// The middle of a bucket.
  static Duration duration_of(std::size_t bucket);

  static std::int64_t slot_number(Instant now) { return now.time_since_epoch() / slot_time; }
  Slot& current(Instant now) {
    const std::int64_t number = slot_number(now);
    Slot& slot = slots_[static_cast<std::size_t>(number) % slot_count];
    if (slot.number.load(std::memory_order_relaxed) != number) [[unlikely]]
      restart(slot, number);
    return slot;
  }
  static void restart(Slot& slot, std::int64_t number);
  RecentLatency latency(std::int64_t now, Buckets Slot::* which) const;

  std::array<Slot, slot_count> slots_;
};

}  // namespace evenkeel
