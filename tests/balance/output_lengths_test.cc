#include "balance/output_lengths.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace evenkeel::testing
