#include "scheduler/least_squares.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

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
      EXPECT_NEAR(model.prediction(x).y / (truth[0] * x[0] + truth[1] * x[1]), 1, 0.1) << wrong;
    }
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

  EXPECT_NEAR(model.prediction({5, 10}).y, 1.08, 0.25);
}

TEST(LeastSquares, IsNotMovedMuchByOneStall) {
  Model model({0.05, 0.002}, 0.99);
  Rng rng(5);
  for (int i = 0; i < 200; ++i) {
    const auto x = some_input(rng);
    model.learn(x, noisy(0.05 * x[0] + 0.002 * x[1], rng));
  }

  model.learn({5, 10}, 100);

  EXPECT_NEAR(model.prediction({5, 10}).y, 0.27, 0.02);
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
    ASSERT_LT(model.prediction({1, 32, 9}).y, i < 50 ? 0.04 : 0.005) << i;
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
    ASSERT_NEAR(model.prediction({1, 21, 305}).y / truth({1, 21, 305}), 1, i < 50 ? 1.5 : 0.2) << i;
  }

  EXPECT_LT(model.prediction({1, 1, 10}).y, 0.06);
}

/// Of a server that takes `factor` times as long as at first, after so many samples.
Model learned_model(int samples, double factor = 1) {
  Model model({0.1, 0.01}, 0.99);
  Rng rng(9);
  for (int i = 0; i < samples; ++i) {
    const auto x = some_input(rng);
    model.learn(x, factor * noisy(0.05 * x[0] + 0.002 * x[1], rng));
  }
  return model;
}

TEST(LeastSquares, ARestoredModelPredictsTheSame) {
  const Model before = learned_model(300);
  Model model({1, 1}, 0.99);

  ASSERT_TRUE(model.restore(before.learned(), 10));

  EXPECT_EQ(model.prediction({5, 10}).y, before.prediction({5, 10}).y);
  EXPECT_EQ(model.samples(), 300u);
}

TEST(LeastSquares, AFewSamplesOverruleARestoredModel) {
  Model before = learned_model(1000);
  Model restored({1, 1}, 0.99);
  ASSERT_TRUE(restored.restore(before.learned(), 10));
  Rng rng(2);
  // Not so different that the models take it for a change at once.
  for (int i = 0; i < 15; ++i) {
    const auto x = some_input(rng);
    const double seconds = 1.4 * (0.05 * x[0] + 0.002 * x[1]);
    before.learn(x, seconds);
    restored.learn(x, seconds);
  }

  const double truth = 1.4 * (0.05 * 5 + 0.002 * 10);
  EXPECT_NEAR(restored.prediction({5, 10}).y / truth, 1, 0.15);
  EXPECT_LT(before.prediction({5, 10}).y / truth, 0.82) << "of which it was surer";
}

TEST(LeastSquares, AModelOfFewSamplesIsRestoredAsItIs) {
  const Model before = learned_model(4);
  Model restored({1, 1}, 0.99);

  ASSERT_TRUE(restored.restore(before.learned(), 10));

  EXPECT_EQ(restored.learned(), before.learned());
}

TEST(LeastSquares, RestoredAgainItKnowsNoLess) {
  Model once({1, 1}, 0.99);
  ASSERT_TRUE(once.restore(learned_model(300).learned(), 10));
  Model again({1, 1}, 0.99);

  ASSERT_TRUE(again.restore(once.learned(), 10));

  EXPECT_EQ(again.learned(), once.learned());
}

TEST(LeastSquares, IsNotRestoredFromWhatNoSamplesTeach) {
  const LearnedModel<2> good = learned_model(50).learned();
  const double nan = std::nan("");
  const double infinite = HUGE_VAL;
  std::vector<LearnedModel<2>> bad;
  const auto with = [&](auto change) { change(bad.emplace_back(good)); };
  with([](auto& model) { model.samples = 0; });
  for (const double number : {nan, infinite, -1.0, 1e200}) {
    with([&](auto& model) { model.coefficients[1] = number; });
    with([&](auto& model) { model.max_variance[0] = number; });
    with([&](auto& model) { model.covariance[1][1] = number; });
    with([&](auto& model) { model.covariance[0][1] = number; });
    with([&](auto& model) { model.covariance[0][1] = model.covariance[1][0] = number; });
  }
  with([](auto& model) { model.max_variance[0] = 0; });
  with([](auto& model) { model.covariance[0][0] = 0; });

  const Model fresh({0.1, 0.01}, 0.99);
  for (std::size_t i = 0; i < bad.size(); ++i) {
    Model model = fresh;
    EXPECT_FALSE(model.restore(bad[i], 10)) << i;
    EXPECT_EQ(model.learned(), fresh.learned()) << i;
  }
}

TEST(LeastSquares, ItsOwnModelsCanBeRestoredHoweverTheyCameAbout) {
  Rng rng(12);
  for (int run = 0; run < 300; ++run) {
    LeastSquares<3> model({0.03, 5e-5, 1e-4}, 0.995);
    const std::uint32_t samples = 1 + rng.below(2000);
    const bool same_input = rng.below(2) == 0;
    for (std::uint32_t i = 0; i < samples; ++i) {
      const double streams = same_input ? 4 : 64 * rng.unit();
      model.learn({1, streams, streams * 2 * rng.unit()}, 0.1 * rng.unit() * rng.unit());
    }
    LeastSquares<3> other({1, 1, 1}, 0.995);
    ASSERT_TRUE(other.restore(model.learned(), 10)) << run;
    ASSERT_TRUE(std::isfinite(other.prediction({1, 4, 4}).variance));
  }
}

}  // namespace
}  // namespace evenkeel::testing
