// Percentiles of durations, in memory that does not grow with their number.
#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// A histogram of durations with 128 buckets per power of two, after HdrHistogram: a percentile is
/// at most 1/128 above the exact one and never below it; maximum, mean and count are exact. Takes
/// at most 40 KB.
class HdrHistogram {
 public:
  /// Counts one duration. A negative one counts as zero; one above 2 hours counts as 2 hours in the
  /// percentiles, and in full in `max`.
  void record(Duration duration);
  void merge(const HdrHistogram& other);
  void clear() { *this = HdrHistogram(); }

  std::uint64_t count() const { return count_; }
  /// The duration that this share of all (0 to 1) does not exceed; zero where nothing is recorded.
  Duration quantile(double ratio) const;
  Duration max() const { return max_; }
  Duration mean() const;

 private:
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  Duration max_{};
  double sum_seconds_ = 0;
};

}  // namespace evenkeel
