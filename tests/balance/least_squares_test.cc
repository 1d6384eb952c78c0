#include "balance/least_squares.h"

#include <gtest/gtest.h>

#include <cmath>

#include "evenkeel/base/rng.h"

namespace evenkeel::testing {
namespace {

using Model = LeastSquares<2>;

/// Inputs of two sizes of jobs, in any mix.
Model::Vector some_input(Rng& rng) { return {1 + 9 * rng.unit(), 20 * rng.unit()}; }

double noisy(double value, Rng& rng) { return value * (1 + 0.05 * (2 * rng.unit() - 1)); }

TEST(LeastSquares, ConvergesFromPriorsThatAreFourTimesWrongWithinFiftySamples) {
  for (const double wrong : {0.25, 4.0}) {
    const Model::Vector truth = {0.05, 0.002};
    Model model({truth[0] * wrong, truth[1] * wrong}, 0.99);
    Rng rng(3);

    for (int i = 0; i < 50; ++i) {
      const auto x = some_input(rng);
      model.learn(x, noisy(truth[0] * x[0] + truth[1] * x[1], rng));
    }

    for (const Model::Vector& x : {Model::Vector{1, 2}, {5, 10}, {10, 0}, {9, 20}}) {
      EXPECT_NEAR(model.predict(x) / (truth[0] * x[0] + truth[1] * x[1]), 1, 0.1) << wrong;
    }
    EXPECT_LT(model.relative_error(), 0.2);
  }
}

TEST(LeastSquares, FollowsAServerThatBecomesFourTimesSlower) {
  Model model({0.05, 0.002}, 0.99);
  Rng rng(5);
  for (int i = 0; i < 500; ++i) {
    const auto x = some_input(rng);
    model.learn(x, noisy(0.05 * x[0] + 0.002 * x[1], rng));
  }

  for (int i = 0; i < 100; ++i) {
    const auto x = some_input(rng);
    model.learn(x, noisy(0.2 * x[0] + 0.008 * x[1], rng));
  }

  EXPECT_NEAR(model.predict({5, 10}), 1.08, 0.25);
}

TEST(LeastSquares, IsNotMovedMuchByOneStall) {
  Model model({0.05, 0.002}, 0.99);
  Rng rng(5);
  for (int i = 0; i < 200; ++i) {
    const auto x = some_input(rng);
    model.learn(x, noisy(0.05 * x[0] + 0.002 * x[1], rng));
  }

  model.learn({5, 10}, 100);

  EXPECT_NEAR(model.predict({5, 10}), 0.27, 0.02);
}

TEST(LeastSquares, SamplesWithJitterTeachLittle) {
  Model model({0.05, 0.002}, 0.99);

  for (int i = 0; i < 20; ++i) model.learn({0.1, 0}, 0, 0.05);

  EXPECT_GT(model.coefficients()[0], 0.04);
}

TEST(LeastSquares, NeverLearnsACoefficientBelowZero) {
  Model model({0.05, 0.002}, 0.99);
  Rng rng(8);

  for (int i = 0; i < 300; ++i) {
    const auto x = some_input(rng);
    model.learn(x, std::max(0.001, 0.05 * x[0] - 0.004 * x[1]));
  }

  EXPECT_GE(model.coefficients()[0], 0);
  EXPECT_GE(model.coefficients()[1], 0);
}

// A cache in front of an engine, or an engine in a test, answers in a thousandth of the time that
// the prior says.
TEST(LeastSquares, StaysNearValuesThatAreFarBelowThePrior) {
  LeastSquares<3> model({0.03, 5e-5, 1e-4}, 0.995);
  Rng rng(21);

  for (int i = 0; i < 100'000; ++i) {
    const double streams = 32 * rng.unit();
    const LeastSquares<3>::Vector x = {1, streams, 0.28 * streams};
    model.learn(x, 1e-4 * (0.2 + 4 * rng.unit()));
    ASSERT_LT(model.predict({1, 32, 9}), i < 50 ? 0.04 : 0.005) << i;
  }
}

// Round-off in a covariance that is forgotten grows without end unless it stays symmetric, and
// traffic that never varies in one direction makes it grow in that direction.
TEST(LeastSquares, StaysRightOverALongRunOfUnvaryingTraffic) {
  LeastSquares<3> model({0.03, 5e-5, 1e-4}, 0.995);
  Rng rng(13);
  const auto truth = [](const LeastSquares<3>::Vector& x) {
    return 0.016 + 3e-5 * x[1] + 5.6e-5 * x[2];
  };

  for (int i = 0; i < 100'000; ++i) {
    const LeastSquares<3>::Vector x = {1, 20.0 + rng.below(3), 300 + 15 * rng.unit()};
    model.learn(x, noisy(truth(x), rng));
    ASSERT_NEAR(model.predict({1, 21, 305}) / truth({1, 21, 305}), 1, i < 50 ? 1.5 : 0.2) << i;
  }

  EXPECT_LT(model.predict({1, 1, 10}), 0.06);
}

}  // namespace
}  // namespace evenkeel::testing
