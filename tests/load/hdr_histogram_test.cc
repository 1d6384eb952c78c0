#include "evenkeel/load/hdr_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

TEST(HdrHistogram, IsZeroWhenEmpty) {
  const HdrHistogram none;

  EXPECT_EQ(none.count(), 0u);
  EXPECT_EQ(none.quantile(0.5), Duration::zero());
  EXPECT_EQ(none.max(), Duration::zero());
  EXPECT_EQ(none.mean(), Duration::zero());
}

TEST(HdrHistogram, OfOneDurationReturnsIt) {
  HdrHistogram one;
  one.record(nanoseconds(123'456'789));

  EXPECT_EQ(one.quantile(0), nanoseconds(123'456'789));
  EXPECT_EQ(one.quantile(0.5), nanoseconds(123'456'789));
  EXPECT_EQ(one.quantile(1), nanoseconds(123'456'789));
}

TEST(HdrHistogram, UsesTheNearestRank) {
  HdrHistogram hundred;
  for (int i = 1; i <= 100; ++i) hundred.record(nanoseconds(i));

  EXPECT_EQ(hundred.quantile(0.07), nanoseconds(7));
  EXPECT_EQ(hundred.quantile(0.5), nanoseconds(50));
  EXPECT_EQ(hundred.quantile(0.99), nanoseconds(99));
  EXPECT_EQ(hundred.quantile(1), nanoseconds(100));
  EXPECT_EQ(hundred.mean(), nanoseconds(50));
}

TEST(HdrHistogram, IsAtMostOnePartIn128AboveTheExactQuantileAndNeverBelow) {
  Rng chance(7);
  HdrHistogram counted;
  std::vector<std::int64_t> exact;
  for (int i = 0; i < 20'000; ++i) {
    const auto value = static_cast<std::int64_t>(std::exp(chance.unit() * 25));  // 1 ns to 72 s
    exact.push_back(value);
    counted.record(nanoseconds(value));
  }
  std::sort(exact.begin(), exact.end());

  for (const double ratio : {0.001, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999}) {
    const auto rank = static_cast<std::size_t>(std::ceil(ratio * 20'000 - 1e-6));
    const auto right = static_cast<double>(exact[rank - 1]);
    const auto found = static_cast<double>(nanoseconds(counted.quantile(ratio)).count());
    EXPECT_GE(found, right) << ratio;
    EXPECT_LE(found, right * (1 + 1.0 / 128)) << ratio;
  }
  EXPECT_EQ(counted.max(), nanoseconds(exact.back()));
}

TEST(HdrHistogram, MergesToTheHistogramOfAll) {
  HdrHistogram low;
  HdrHistogram high;
  HdrHistogram all;
  for (int i = 1; i <= 500; ++i) {
    low.record(microseconds(i));
    high.record(milliseconds(i));
    all.record(microseconds(i));
    all.record(milliseconds(i));
  }

  low.merge(high);

  EXPECT_EQ(low.count(), all.count());
  EXPECT_EQ(low.mean(), all.mean());
  for (const double ratio : {0.1, 0.5, 0.75, 0.99, 1.0})
    EXPECT_EQ(low.quantile(ratio), all.quantile(ratio));
}

TEST(HdrHistogram, ClampsValuesOutOfRange) {
  HdrHistogram odd;
  odd.record(milliseconds(-5));
  odd.record(hours(100));

  EXPECT_EQ(odd.quantile(0.5), Duration::zero());
  EXPECT_EQ(odd.quantile(1), hours(100));
}

}  // namespace
}  // namespace evenkeel
