// Histograms of durations with fixed bounds; a table lookup finds the bucket.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/stats/counter.h"
#include "evenkeel/stats/exemplars.h"

namespace evenkeel {

/// Upper bounds of the buckets, inclusive and ascending, in nanoseconds. A table by the value's bit
/// width gives the first bound that may hold it; a few comparisons remain.
template <std::size_t N>
class BucketBounds {
 public:
  consteval explicit BucketBounds(const double (&seconds)[N]) {
    for (std::size_t i = 0; i < N; ++i) {
      bounds_[i] = static_cast<std::uint64_t>(seconds[i] * 1e9 + 0.5);
    }
    bounds_[N] = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t width = 0; width < first_.size(); ++width) {
      const std::uint64_t smallest = width == 0 ? 0 : std::uint64_t{1} << (width - 1);
      std::size_t bucket = 0;
      while (bounds_[bucket] < smallest) ++bucket;
      first_[width] = static_cast<std::uint8_t>(bucket);
    }
  }

  static constexpr std::size_t size() { return N; }
  std::span<const std::uint64_t> nanoseconds() const { return {bounds_.data(), N}; }
  /// 0 to N; N is the bucket above the last bound.
  std::size_t bucket_of(std::uint64_t nanoseconds) const {
    // 0 and 1 share an entry: std::bit_width of a nonzero value needs no branch.
    std::size_t bucket = first_[static_cast<std::size_t>(std::bit_width(nanoseconds | 1))];
    while (nanoseconds > bounds_[bucket]) ++bucket;
    return bucket;
  }

 private:
  std::array<std::uint64_t, N + 1> bounds_{};
  std::array<std::uint8_t, 65> first_{};
};

/// OpenTelemetry's http.server.request.duration, and five more bounds for responses that take
/// minutes.
inline constexpr BucketBounds request_bounds({.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5,
                                              5, 7.5, 10, 20, 40, 80, 160, 320});
/// OpenTelemetry's gen_ai.server.time_to_first_token, and three more bounds.
inline constexpr BucketBounds first_byte_bounds({.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,
                                                 .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80});
/// The bounds for work within evenkeel: 1 µs to 10 ms.
inline constexpr BucketBounds internal_bounds({1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4,
                                               5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2});

/// The sum of histograms with the same bounds.
struct HistogramTotals {
  std::span<const std::uint64_t> bounds;  ///< nanoseconds
  std::vector<std::uint64_t> counts;      ///< one per bound, and one above the last; not cumulative
  double sum_seconds = 0;
  std::vector<Exemplar> exemplars;  ///< by bucket; empty: there are none
};

/// Counts durations by bucket. Thread: `observe` on one thread, reading on any.
template <const auto& bounds>
class Histogram {
 public:
  /// A negative duration counts as zero.
  void observe(Duration duration) {
    const auto ticks = duration.count();
    if (ticks <= 0) return counts_[0].add();
    counts_[bounds.bucket_of(static_cast<std::uint64_t>(ticks))].add();
    sum_.store(sum_.load(std::memory_order_relaxed) + static_cast<double>(ticks),
               std::memory_order_relaxed);
  }

  void add_to(HistogramTotals& totals) const {
    totals.bounds = bounds.nanoseconds();
    totals.counts.resize(counts_.size());
    for (std::size_t i = 0; i < counts_.size(); ++i) totals.counts[i] += counts_[i].value();
    totals.sum_seconds += sum_.load(std::memory_order_relaxed) / 1e9;
  }

  /// Sets all counts to 0, on the terms of `Counter::clear`.
  void clear() {
    for (Counter& count : counts_) count.clear();
    sum_.store(0, std::memory_order_relaxed);
  }

 private:
  static_assert(Duration::period::den == 1'000'000'000 && Duration::period::num == 1);

  std::array<Counter, bounds.size() + 1> counts_;
  std::atomic<double> sum_{
      0};  // nanoseconds; an integer would overflow after weeks of long requests
};

/// A histogram that keeps the last traced observation of each bucket. What is not traced costs no
/// more than in another histogram.
template <const auto& bounds>
class TracedHistogram : public Histogram<bounds> {
 public:
  /// Keeps an observation that was counted. Thread: that of `observe`.
  void keep_exemplar(Duration duration, const ObservedTrace& trace) {
    const auto ticks = duration.count();
    exemplars_.record(ticks <= 0 ? 0 : bounds.bucket_of(static_cast<std::uint64_t>(ticks)),
                      duration, trace);
  }
  void add_to(HistogramTotals& totals) const {
    Histogram<bounds>::add_to(totals);
    exemplars_.add_to(totals.exemplars);
  }
  void clear() {
    Histogram<bounds>::clear();
    exemplars_.clear();
  }

 private:
  static_assert(bounds.size() < Exemplars::max_buckets);

  Exemplars exemplars_;
};

}  // namespace evenkeel
