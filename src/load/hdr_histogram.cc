#include "evenkeel/load/hdr_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace evenkeel {
namespace {

constexpr unsigned sub_bits = 7;  // 128 buckets per power of two
constexpr std::uint64_t sub_count = std::uint64_t{1} << sub_bits;
constexpr std::uint64_t highest = (std::uint64_t{1} << 43) - 1;  // nanoseconds, 2.4 hours

std::size_t bucket_of(std::uint64_t nanoseconds) {
  const std::uint64_t value = std::min(nanoseconds, highest);
  if (value < sub_count) return static_cast<std::size_t>(value);
  const auto shift = static_cast<unsigned>(std::bit_width(value)) - sub_bits - 1;
  return static_cast<std::size_t>((std::uint64_t{shift} << sub_bits) + (value >> shift));
}

/// The largest value in a bucket.
std::uint64_t upper_end(std::size_t bucket) {
  if (bucket < 2 * sub_count) return bucket;
  const auto shift = (bucket >> sub_bits) - 1;
  const std::uint64_t top = (bucket & (sub_count - 1)) + sub_count;
  return ((top + 1) << shift) - 1;
}

}  // namespace

void HdrHistogram::record(Duration duration) {
  const auto nanoseconds = static_cast<std::uint64_t>(std::max<std::int64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count(), 0));
  const std::size_t bucket = bucket_of(nanoseconds);
  if (bucket >= counts_.size()) counts_.resize(bucket + 1);
  ++counts_[bucket];
  ++count_;
  max_ = std::max(max_, duration);
  sum_seconds_ += std::max(seconds_of(duration), 0.0);
}

void HdrHistogram::merge(const HdrHistogram& other) {
  if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size());
  for (std::size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
  sum_seconds_ += other.sum_seconds_;
}

Duration HdrHistogram::quantile(double ratio) const {
  if (count_ == 0) return Duration::zero();
  const auto all = static_cast<double>(count_);
  // 0.07 * 100 is slightly more than 7 and must not round up to 8.
  const auto rank = static_cast<std::uint64_t>(std::clamp(std::ceil(ratio * all - 1e-6), 1.0, all));
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
    seen += counts_[bucket];
    if (seen < rank) continue;
    if (bucket + 1 == counts_.size()) return max_;
    return std::min(max_, Duration(std::chrono::nanoseconds(upper_end(bucket))));
  }
  return max_;
}

Duration HdrHistogram::mean() const {
  if (count_ == 0) return Duration::zero();
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(sum_seconds_ / static_cast<double>(count_)));
}

}  // namespace evenkeel
