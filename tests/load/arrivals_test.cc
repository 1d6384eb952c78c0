#include "evenkeel/load/arrivals.h"

#include <gtest/gtest.h>

#include <cmath>

namespace evenkeel {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(EvenArrivals, AreAPeriodApartAndDoNotDrift) {
  const auto arrivals = make_constant_rate_arrivals(3000);

  EXPECT_EQ(arrivals->next(), Duration::zero());
  EXPECT_EQ(arrivals->next(), nanoseconds(333'333));
  EXPECT_EQ(arrivals->next(), nanoseconds(666'667));
  for (int i = 3; i < 3'000'000; ++i) arrivals->next();
  EXPECT_EQ(arrivals->next(), seconds(1000));
}

TEST(PoissonArrivals, HaveGapsThatAreExponential) {
  const double rate = 200;
  const int count = 100'000;
  const auto arrivals = make_poisson_arrivals(rate, 1);

  Duration last{};
  double sum = 0;
  double squares = 0;
  int longer_than_mean = 0;
  for (int i = 0; i < count; ++i) {
    const auto due = arrivals->next();
    ASSERT_TRUE(due);
    ASSERT_GE(*due, last);
    const double gap = seconds_of(*due - last);
    last = *due;
    sum += gap;
    squares += gap * gap;
    if (gap > 1 / rate) ++longer_than_mean;
  }

  const double mean = sum / count;
  const double deviation = std::sqrt(squares / count - mean * mean);
  EXPECT_NEAR(mean, 1 / rate, 0.02 / rate);
  EXPECT_NEAR(deviation / mean, 1, 0.03);
  EXPECT_NEAR(longer_than_mean / static_cast<double>(count), std::exp(-1), 0.01);
}

TEST(PoissonArrivals, AreTheSameForTheSameSeedOnly) {
  const auto one = make_poisson_arrivals(10, 1);
  const auto same = make_poisson_arrivals(10, 1);
  const auto other = make_poisson_arrivals(10, 2);

  const auto first = one->next();

  EXPECT_EQ(first, same->next());
  EXPECT_NE(first, other->next());
}

TEST(TraceArrivals, AreTheRowsTimesDividedBySpeedAndThenEnd) {
  std::vector<TraceRow> rows(3);
  rows[1].due = milliseconds(500);
  rows[2].due = seconds(3);

  const auto arrivals = make_trace_arrivals(rows, 4);

  EXPECT_EQ(arrivals->next(), Duration::zero());
  EXPECT_EQ(arrivals->next(), milliseconds(125));
  EXPECT_EQ(arrivals->next(), milliseconds(750));
  EXPECT_EQ(arrivals->next(), std::nullopt);
  EXPECT_EQ(arrivals->next(), std::nullopt);
}

}  // namespace
}  // namespace evenkeel
