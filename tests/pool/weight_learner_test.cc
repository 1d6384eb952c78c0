// sim/pool_simulation_test.cc tests the weights on a simulated pool.
#include "pool/weight_learner.h"

#include <gtest/gtest.h>

#include "pool/some_pool.h"

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

class WeightLearnerOfThree : public ::testing::Test {
 protected:
  // Each backend serves `answers` requests a second; `took` has the duration of each backend's.
  void pass(int seconds, std::initializer_list<Duration> took, int answers = 20) {
    for (int second = 0; second < seconds; ++second) {
      std::size_t index = 0;
      for (const Duration each : took) {
        for (int i = 0; i < answers && each > 0s; ++i)
          shared(index).stats.record_served(each, noon);
        ++index;
      }
      now += 1s;
      rule.tick(*backends, now);
    }
  }
  SharedBackend& shared(std::size_t index) { return (*backends)[index]->shared(); }
  double ratio(std::size_t a, std::size_t b) {
    return shared(a).findings.learned_weight() / shared(b).findings.learned_weight();
  }

  WeightLearner rule;
  std::shared_ptr<Backends> backends = some_backends(3);
  Instant now = noon;
};

TEST_F(WeightLearnerOfThree, LearnsNothingWithoutTraffic) {
  pass(30, {0s, 0s, 0s});

  EXPECT_EQ(shared(0).findings.learned_weight(), 0);
}

TEST_F(WeightLearnerOfThree, LearnsTheSpeedOfEachBackend) {
  pass(30, {3s, 1700ms, 1s});

  EXPECT_NEAR(ratio(2, 0), 3, 0.01);
  EXPECT_NEAR(ratio(1, 0), 3 / 1.7, 0.01);
}

TEST_F(WeightLearnerOfThree, DoesNotMistakeTrafficForSpeed) {
  for (int i = 0; i < 30; ++i) {
    for (int n = 0; n < 200; ++n) shared(0).stats.record_served(2s, noon);
    for (int n = 0; n < 20; ++n) shared(1).stats.record_served(1s, noon);
    now += 1s;
    rule.tick(*backends, now);
  }

  EXPECT_NEAR(ratio(1, 0), 2, 0.01);
}

TEST_F(WeightLearnerOfThree, ChangesAWeightByAQuarterASecondAtMost) {
  pass(30, {1s, 1s, 1s});
  for (int i = 0; i < 10; ++i) {
    const double before = shared(0).findings.learned_weight();
    pass(1, {60s, 1s, 1s});
    EXPECT_GE(shared(0).findings.learned_weight(), before / 1.26);
    EXPECT_LE(shared(1).findings.learned_weight(), 1.26 * 3);
  }
}

TEST_F(WeightLearnerOfThree, StarvesNoBackend) {
  pass(200, {10min, 10ms, 10ms});

  EXPECT_NEAR(shared(0).findings.learned_weight(), 1.0 / 16, 0.001) << "of the mean, which is 1";
}

TEST_F(WeightLearnerOfThree, KeepsLearningFromRareRequests) {
  pass(30, {8s, 1s, 1s});
  ASSERT_LT(ratio(0, 1), 0.2);

  // The backend gets one request every five seconds, and has become as fast as the others.
  for (int i = 0; i < 60; ++i) {
    shared(0).stats.record_served(1s, noon);
    pass(5, {0s, 1s, 1s});
  }

  EXPECT_NEAR(ratio(0, 1), 1, 0.05);
}

TEST_F(WeightLearnerOfThree, DetectsAStalledBackend) {
  pass(30, {1s, 1s, 1s});
  for (int i = 0; i < 10; ++i) shared(0).slots.try_acquire();

  pass(30, {0s, 1s, 1s});

  EXPECT_LT(ratio(0, 1), 0.3);
}

TEST_F(WeightLearnerOfThree, DetectsASlowBackendBeforeItsFirstFullWindow) {
  // Twenty requests a second for each backend; the third neither responds nor fails.
  for (int second = 0; second < 3; ++second) {
    for (int i = 0; i < 20; ++i) {
      shared(0).stats.record_served(1s, noon);
      shared(1).stats.record_served(1s, noon);
      shared(2).slots.try_acquire();
    }
    for (int tick = 0; tick < 10; ++tick) rule.tick(*backends, now += 100ms);
  }

  EXPECT_LT(ratio(2, 0), 0.7);
  EXPECT_GT(ratio(2, 0), 0.3) << "it moves by a quarter a second";
}

TEST_F(WeightLearnerOfThree, StartsFromTheFileAndKeepsItsScale) {
  backends = weighted_backends({2, 2, 8});
  pass(1, {0s, 0s, 0s});
  pass(30, {1s, 1s, 0s});

  EXPECT_NEAR(shared(0).findings.learned_weight(), 4, 0.01) << "the mean of the file";
  EXPECT_EQ(shared(2).findings.learned_weight(), 0) << "not known: the file's";
}

TEST_F(WeightLearnerOfThree, ForgetsRemovedBackends) {
  pass(30, {1s, 2s, 3s});
  auto two = std::make_shared<Backends>(Backends{(*backends)[0], (*backends)[1]});

  for (int i = 0; i < 10; ++i) {
    for (int n = 0; n < 20; ++n) {
      shared(0).stats.record_served(1s, noon);
      shared(1).stats.record_served(2s, noon);
    }
    now += 1s;
    rule.tick(*two, now);
  }

  EXPECT_NEAR(shared(0).findings.learned_weight() + shared(1).findings.learned_weight(), 2, 0.01);
}

TEST(WeightedByObservation, GivesSharesByLearnedWeights) {
  auto backends = weighted_backends({1, 1, 5});
  (*backends)[0]->findings().set_learned_weight(3);
  (*backends)[1]->findings().set_learned_weight(0.5F);
  auto picker = make_picker(
      {.backends = backends, .choice = {.name = "weighted", .weights = WeightSource::observed}}, 3);

  const auto counts = count_picks(*picker, *backends, 850);

  EXPECT_NEAR(counts[0], 300, 3);
  EXPECT_NEAR(counts[1], 50, 3);
  EXPECT_NEAR(counts[2], 500, 3) << "of which nothing is known: the file's";
}

TEST(WeightedByObservation, FollowsLearnedWeights) {
  auto backends = weighted_backends({1, 1});
  auto picker = make_picker(
      {.backends = backends, .choice = {.name = "weighted", .weights = WeightSource::observed}}, 3);
  count_picks(*picker, *backends, 100);

  (*backends)[0]->findings().set_learned_weight(4);
  count_picks(*picker, *backends, 10);  // uses up the turns scheduled before

  EXPECT_NEAR(count_picks(*picker, *backends, 500)[0], 400, 3);
}

}  // namespace
}  // namespace evenkeel::testing
