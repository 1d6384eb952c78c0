// Percentiles of durations, in memory that does not grow with their number.
#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// A histogram of durations with 128 buckets per power of two, after HdrHistogram: a percentile is
/// at most 1/128 above the exact one and never below it; the longest, the mean and the count are
/// exact. At most 40 KB.
class HdrHistogram {
 public:
  /// Counts one duration; what is negative counts as zero, what is above 2 hours as 2 hours in the
  /// percentiles (the longest stays exact).
  void add(Duration duration);
  void merge(const HdrHistogram& other);
  void clear() { *this = HdrHistogram(); }

  std::uint64_t count() const { return count_; }
  /// The duration that a share of all (0 to 1) does not exceed; zero when there is none.
  Duration at(double ratio) const;
  Duration max() const { return max_; }
  Duration mean() const;

 private:
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  Duration max_{};
  double sum_seconds_ = 0;
};

}  // namespace evenkeel
