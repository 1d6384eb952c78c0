#include "evenkeel/scaling/replica_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr Instant begin{Instant::duration(std::chrono::hours(1000))};

/// A pool that the planner looks at once a second.
class PlannedPool : public ::testing::Test {
 protected:
  const ReplicaPlan& pass(Duration time) {
    for (const Instant until = now_ + time; now_ < until; now_ += 1s) tick();
    return planner_.plan();
  }
  const ReplicaPlan& tick() {
    if (sample_.work) {
      arrived_ += requests_per_second_;
      const auto arrived = static_cast<std::uint64_t>(arrived_);
      sample_.work->work_sum += work_ * (arrived - sample_.work->arrived_total);
      sample_.work->arrived_total = sample_.work->priced_total = arrived;
      sample_.in_flight = requests_per_second_ > 0 ? 1 : 0;
    }
    return planner_.update(sample_, config_, now_);
  }
  void given_load(double load, std::uint32_t replicas = 1) {
    sample_.load = load;
    sample_.replicas = replicas;
    sample_.in_flight = load > 0 ? 1 : 0;
  }
  /// Each replica can do `capacity` seconds of work in a second.
  void given_work(double requests_per_second, Duration work, double capacity) {
    if (!sample_.work) sample_.work.emplace();
    sample_.work->capacity = capacity;
    sample_.load = unknown;
    requests_per_second_ = requests_per_second;
    work_ = work;
  }

  ScalingConfig config_{.min = 0, .max = 100, .target = 0.8, .start_time = 3min};
  PoolSample sample_{};
  ReplicaPlanner planner_;
  Instant now_ = begin;
  double requests_per_second_ = 0;
  double arrived_ = 0;
  Duration work_{};
};

TEST_F(PlannedPool, PlansReplicasForALoadAtTheTarget) {
  given_load(4.0, 5);

  const ReplicaPlan& plan = pass(10min);

  EXPECT_EQ(plan.desired, 5u);
  EXPECT_EQ(plan.reason, ScalingReason::load);
  EXPECT_NEAR(plan.demand, 5.0, 0.01);
}

TEST_F(PlannedPool, PlansReplicasForTheWorkOfTheRequestsThatCome) {
  // 10 requests of 0.4 s are 4 engines' time; each has 0.8 of it left at the SLO, 0.8 are planned.
  given_work(10, 400ms, 0.8);

  const ReplicaPlan& plan = pass(10min);

  EXPECT_EQ(plan.desired, 7u);
  EXPECT_EQ(plan.reason, ScalingReason::work);
  EXPECT_NEAR(plan.demand, 4 / 0.8 / 0.8, 0.2);
  EXPECT_NEAR(*plan.work, 4, 0.1);
}

TEST_F(PlannedPool, TheLargerOfWorkAndWhatEnginesReportCounts) {
  given_work(1, 100ms, 1);
  sample_.load = 3.9;
  sample_.replicas = 4;

  EXPECT_EQ(pass(10min).desired, 5u);
  EXPECT_EQ(planner_.plan().reason, ScalingReason::load);
}

TEST_F(PlannedPool, RequestsThatWaitAddTheWorkToServeThemInTheirPatience) {
  given_work(10, 70ms, 1);
  pass(10min);
  ASSERT_EQ(planner_.plan().desired, 1u);

  sample_.waiting = 600;
  sample_.patience = 30s;

  EXPECT_EQ(tick().desired, 3u);  // (0.7 + 600 * 0.07 / 30) / 0.8
}

TEST_F(PlannedPool, ReactsToAStepWithinHalfAMinute) {
  given_load(0.7);
  pass(10min);
  ASSERT_EQ(planner_.plan().desired, 1u);

  given_load(3.0);

  EXPECT_GE(pass(30s).desired, 3u);
}

TEST_F(PlannedPool, PlansARampForTheTimeAtWhichANewReplicaServes) {
  // One replica more in two minutes: 1.5 more by the time that a new one serves.
  for (double load = 4; load < 8; load += 1.0 / 120) {
    given_load(load, 8);
    tick();
    now_ += 1s;
  }

  const ReplicaPlan& plan = planner_.plan();

  EXPECT_NEAR(plan.demand, (8 + 1.5) / 0.8, 0.6);
  EXPECT_NEAR(plan.trend, 0.5 / 0.8, 0.05);
}

TEST_F(PlannedPool, SeesNoTrendInNoise) {
  double seed = 0;
  for (int i = 0; i < 1200; ++i) {
    seed = std::fmod(seed * 997 + 0.123, 1);
    given_load(3.2 + 0.4 * (seed - 0.5), 4);
    tick();
    now_ += 1s;
  }

  EXPECT_NEAR(planner_.plan().demand, 4, 0.4);
}

TEST_F(PlannedPool, ReplicasStayAsLongAsANewOneWouldTakeToStart) {
  given_load(4.0, 5);
  pass(10min);

  given_load(0.5, 5);
  EXPECT_EQ(pass(2min).desired, 5u);
  EXPECT_EQ(planner_.plan().reason, ScalingReason::held);

  EXPECT_EQ(pass(4min).desired, 1u);
}

TEST_F(PlannedPool, ReturnsToZeroOnceNoRequestHasComeForThatLong) {
  given_work(1, 100ms, 1);
  pass(10min);
  ASSERT_EQ(planner_.plan().desired, 1u);

  requests_per_second_ = 0;
  EXPECT_EQ(pass(170s).desired, 1u);

  EXPECT_EQ(pass(10min).desired, 0u);
  EXPECT_EQ(planner_.plan().reason, ScalingReason::idle);
}

TEST_F(PlannedPool, WantsOneReplicaAsSoonAsARequestWaitsForTheFirst) {
  sample_.load = unknown;
  ASSERT_EQ(tick().desired, 0u);

  sample_.waiting = 1;
  now_ += 1s;

  EXPECT_EQ(tick().desired, 1u);
}

TEST_F(PlannedPool, TheFirstReplicaIsWantedUntilItCanHaveStartedAlsoIfTheRequestIsGone) {
  sample_.load = unknown;
  sample_.waiting = 1;
  tick();

  sample_.waiting = 0;

  EXPECT_EQ(pass(170s).desired, 1u);
  EXPECT_EQ(pass(1min).desired, 0u);
}

TEST_F(PlannedPool, StaysWithinItsBounds) {
  config_.min = 2;
  config_.max = 6;
  given_load(0.1);
  EXPECT_EQ(pass(10min).desired, 2u);

  given_load(50);

  EXPECT_EQ(pass(10min).desired, 6u);
  EXPECT_GT(planner_.plan().demand, 50);
}

TEST_F(PlannedPool, AsManyAsServeAreWantedWhereNothingTellsTheLoad) {
  given_load(unknown, 3);
  sample_.in_flight = 5;

  EXPECT_EQ(pass(10min).desired, 3u);
  EXPECT_EQ(planner_.plan().reason, ScalingReason::unknown);
}

TEST_F(PlannedPool, AProcessThatBeginsKeepsWhatServes) {
  given_load(0.1, 7);

  EXPECT_EQ(pass(1min).desired, 7u);
  EXPECT_EQ(planner_.plan().reason, ScalingReason::starting);

  EXPECT_EQ(pass(5min).desired, 1u);
}

TEST_F(PlannedPool, ASchedulerThatWasMadeAgainTellsNoRate) {
  given_work(10, 100ms, 1);
  pass(10min);

  sample_.work = PredictedWork{.capacity = 1};
  arrived_ = 0;

  EXPECT_EQ(pass(1min).desired, 2u);
  EXPECT_NEAR(planner_.plan().demand, 1.25, 0.1);
}

/// Quiet but for two hours a day.
double load_at(Duration since) {
  const auto hour = std::chrono::duration_cast<std::chrono::hours>(since).count() % 24;
  return hour == 9 || hour == 10 ? 8.0 : 0.5;
}

TEST_F(PlannedPool, RemembersWhatTheSameHourOfYesterdayWasLike) {
  for (; now_ < begin + 33h - 1min; now_ += 10s) {
    given_load(load_at(now_ - begin), 10);
    tick();
  }

  // A minute before it happens again.
  EXPECT_EQ(planner_.plan().desired, 10u);
  EXPECT_EQ(planner_.plan().reason, ScalingReason::history);
}

TEST_F(PlannedPool, ADayThatWasQuietAWeekAgoIsNotPlannedAsYesterday) {
  const auto quiet_at_first = [](Duration since) { return since < 24h ? 0.5 : load_at(since); };
  for (; now_ < begin + 7 * 24h + 9h - 1min; now_ += 10s) {
    given_load(quiet_at_first(now_ - begin), 1);
    tick();
  }

  EXPECT_EQ(planner_.plan().desired, 1u);
}

}  // namespace
}  // namespace evenkeel::testing
