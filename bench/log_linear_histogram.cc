#include "bench/log_linear_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace evenkeel::bench {
namespace {

constexpr unsigned kSubBits = 8;
constexpr std::uint64_t kSub = 1U << kSubBits;  // buckets per power of two
constexpr std::uint64_t kLinear = 2 * kSub;     // below this every value has its own bucket

std::size_t bucket_of(std::uint64_t value) {
  if (value < kLinear) return static_cast<std::size_t>(value);
  const auto shift = static_cast<unsigned>(std::bit_width(value)) - (kSubBits + 1);
  return static_cast<std::size_t>(kLinear + (shift - 1) * kSub + ((value >> shift) - kSub));
}

double middle_of(std::size_t bucket) {
  if (bucket < kLinear) return static_cast<double>(bucket);
  const auto above = static_cast<std::uint64_t>(bucket) - kLinear;
  const std::uint64_t shift = above / kSub + 1;
  const std::uint64_t low = (above % kSub + kSub) << shift;
  return static_cast<double>(low) + static_cast<double>(1ULL << shift) / 2;
}

}  // namespace

void LogLinearHistogram::add(std::uint64_t nanoseconds) {
  const std::size_t bucket = bucket_of(nanoseconds);
  if (bucket >= buckets_.size()) buckets_.resize(bucket + kSub);
  ++buckets_[bucket];
  ++count_;
  max_ = std::max(max_, nanoseconds);
  sum_ += static_cast<double>(nanoseconds);
}

double LogLinearHistogram::quantile_ns(double q) const {
  if (count_ == 0) return 0;
  const auto wanted = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(count_))));
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += buckets_[bucket];
    if (seen >= wanted) return middle_of(bucket);
  }
  return static_cast<double>(max_);
}

double LogLinearHistogram::mean_ns() const {
  return count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
}

}  // namespace evenkeel::bench
