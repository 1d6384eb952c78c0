#include "evenkeel/stats/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

template <const auto& bounds>
HistogramTotals totals_of(const Histogram<bounds>& histogram) {
  HistogramTotals totals;
  histogram.add_to(totals);
  return totals;
}

TEST(Histogram, PutsAValueThatEqualsABoundBelowIt) {
  Histogram<request_bounds> histogram;

  histogram.observe(5ms);
  histogram.observe(5ms + 1ns);

  const auto totals = totals_of(histogram);
  EXPECT_EQ(totals.counts[0], 1u);
  EXPECT_EQ(totals.counts[1], 1u);
}

TEST(Histogram, KeepsTheSumInSecondsAndEveryValueInOneBucket) {
  Histogram<request_bounds> histogram;

  histogram.observe(250ms);
  histogram.observe(1h);
  histogram.observe(-3s);  // a clock that was read in the wrong order counts as zero

  const auto totals = totals_of(histogram);
  EXPECT_DOUBLE_EQ(totals.sum_seconds, 3600.25);
  EXPECT_EQ(totals.counts.front(), 1u);
  EXPECT_EQ(totals.counts.back(), 1u);
  EXPECT_EQ(std::accumulate(totals.counts.begin(), totals.counts.end(), 0u), 3u);
}

TEST(Histogram, AddsUpOverWorkers) {
  Histogram<internal_bounds> one;
  Histogram<internal_bounds> other;
  one.observe(3us);
  other.observe(4us);
  HistogramTotals totals;

  one.add_to(totals);
  other.add_to(totals);

  EXPECT_EQ(totals.counts[2], 2u);
  EXPECT_DOUBLE_EQ(totals.sum_seconds, 7e-6);
}

template <std::size_t N>
void expect_same_buckets_as_a_search(const BucketBounds<N>& bounds) {
  const auto all = bounds.nanoseconds();
  const auto expect_right = [&](std::uint64_t value) {
    const auto found = std::lower_bound(all.begin(), all.end(), value) - all.begin();
    ASSERT_EQ(bounds.bucket_of(value), static_cast<std::size_t>(found)) << value;
  };
  for (const std::uint64_t bound : all) {
    for (const std::uint64_t value : {bound - 1, bound, bound + 1}) expect_right(value);
  }
  for (unsigned bit = 0; bit < 64; ++bit) {
    expect_right(std::uint64_t{1} << bit);
    expect_right((std::uint64_t{1} << bit) - 1);
  }
  expect_right(~std::uint64_t{0});
  std::mt19937_64 chance(7);
  for (int i = 0; i < 20'000; ++i) expect_right(chance() >> (chance() % 64));
}

TEST(BucketBounds, FindTheBucketThatABinarySearchFinds) {
  expect_same_buckets_as_a_search(request_bounds);
  expect_same_buckets_as_a_search(first_byte_bounds);
  expect_same_buckets_as_a_search(internal_bounds);
}

}  // namespace
}  // namespace evenkeel::testing
