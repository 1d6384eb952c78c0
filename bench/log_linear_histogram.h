#pragma once

#include <cstdint>
#include <vector>

namespace evenkeel::bench {

// Counts durations in log-linear buckets, 256 per power of two: a quantile is exact within 0.2 %.
class LogLinearHistogram {
 public:
  void add(std::uint64_t nanoseconds);

  // The middle of the bucket that holds the quantile q (0..1); 0 when empty.
  double quantile_ns(double q) const;
  double mean_ns() const;
  std::uint64_t max_ns() const { return max_; }
  std::uint64_t count() const { return count_; }

 private:
  std::vector<std::uint64_t> buckets_;
  std::uint64_t count_ = 0;
  std::uint64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace evenkeel::bench
