#include "scheduler/output_lengths.h"

#include <gtest/gtest.h>

#include <cmath>

namespace evenkeel::testing {
namespace {

/// 100 outputs of seven classes.
OutputLengths some_lengths() {
  OutputLengths lengths;
  for (std::uint64_t i = 0; i < 100; ++i) {
    lengths.learn(2 + i % 7, static_cast<double>((i * 37) % 500 + 1));
  }
  return lengths;
}

// Recorded from the Python reference, which learned the same outputs.
TEST(OutputLengths, PredictsWhatTheReferenceDoes) {
  const OutputLengths lengths = some_lengths();

  EXPECT_NEAR(lengths.remaining(3, 0), 221.451095, 1e-5);
  EXPECT_NEAR(lengths.remaining(3, 100), 121.451095, 1e-5);
  EXPECT_NEAR(lengths.remaining(3, 300), 110.725547, 1e-5);
  EXPECT_NEAR(lengths.remaining(8, 900), 450.0, 1e-5);
  EXPECT_NEAR(lengths.remaining(9, 0), 247.5, 1e-5);
  EXPECT_NEAR(lengths.remaining(9, 50), 219.593407, 1e-5);
  EXPECT_NEAR(lengths.remaining(9, 450), 30.5, 1e-5);
  EXPECT_NEAR(lengths.remaining(9, 600), 300.0, 1e-5);
}

TEST(OutputLengths, GuessesBeforeTheFirstOutput) {
  const OutputLengths lengths;

  EXPECT_EQ(lengths.remaining(1, 0), 200);
  EXPECT_EQ(lengths.mean(), 200);
}

TEST(OutputLengths, KnowsTheMeanOfTheLastOutputs) {
  OutputLengths lengths;
  for (int i = 0; i < 1000; ++i) lengths.learn(1, 7);
  for (int i = 0; i < 400; ++i) lengths.learn(2, 50);

  EXPECT_DOUBLE_EQ(lengths.mean(), 50);
  EXPECT_DOUBLE_EQ(lengths.remaining(1, 0), 7);
  EXPECT_DOUBLE_EQ(lengths.remaining(3, 0), 50);
}

TEST(OutputLengths, ExpectsAtLeastOneToken) {
  OutputLengths lengths;
  for (int i = 0; i < 50; ++i) lengths.learn(1, 1);

  EXPECT_GE(lengths.remaining(1, 0), 1);
  EXPECT_GE(lengths.remaining(1, 1), 1);
  EXPECT_GE(lengths.remaining(9, 1), 1);
}

TEST(OutputLengths, ContinuesWithWhatAnotherHasLearned) {
  LearnedTraffic learned;
  some_lengths().learned(learned);
  ASSERT_EQ(learned.output_classes.size(), 7u);
  ASSERT_EQ(learned.output_lengths.size(), 100u);

  OutputLengths lengths;
  lengths.restore(learned);

  const OutputLengths before = some_lengths();
  EXPECT_NEAR(lengths.mean(), before.mean(), 1e-9);
  for (const double generated : {0.0, 50.0, 300.0, 900.0}) {
    EXPECT_NEAR(lengths.remaining(3, generated), before.remaining(3, generated), 1e-9);
    EXPECT_NEAR(lengths.remaining(999, generated), before.remaining(999, generated), 1e-9);
  }
  lengths.learn(3, 2000);
  EXPECT_GT(lengths.remaining(3, 0), 1.5 * before.remaining(3, 0))
      << "a new output counts for much";
}

TEST(OutputLengths, IgnoresWhatNoOutputsTeach) {
  const double nan = std::nan("");
  LearnedTraffic learned;
  for (const double number : {nan, -1.0, 1e300, HUGE_VAL}) {
    learned.output_lengths.push_back(number);
    learned.output_classes.push_back({.key = 3, .outputs = 9, .mean = number});
    learned.output_classes.push_back({.key = 4, .outputs = number, .mean = -1});
  }
  for (int i = 0; i < 100'000; ++i) learned.output_lengths.push_back(70);
  for (std::uint64_t i = 0; i < 100'000; ++i)
    learned.output_classes.push_back({.key = i + 10, .outputs = 1e300, .mean = 70});

  OutputLengths lengths;
  lengths.restore(learned);

  EXPECT_NEAR(lengths.mean(), 70, 1e-6);
  EXPECT_NEAR(lengths.remaining(3, 0), 70, 1e-6) << "as of an unknown class";
  EXPECT_NEAR(lengths.remaining(100'009, 0), 70, 1e-6);
}

}  // namespace
}  // namespace evenkeel::testing
