// The pickers with a whole fleet of simulated engines, in virtual time: do they use what is there,
// do they settle, do they follow?
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/virtual_fleet.h"

namespace evenkeel::testing {
namespace {

// What an engine of speed 1 gets done of this traffic, requests per second.
constexpr double capacity = 22;

PoolSpec pool_of(const std::string& picker) {
  return {.name = "llama",
          .picker = picker,
          .memory_guard = picker == "gpu" ? 0.95 : 0,
          .observed_weights = picker == "weighted"};
}

std::vector<double> unequal(std::size_t threes) {
  std::vector<double> speeds;
  for (std::size_t i = 0; i < threes; ++i) speeds.insert(speeds.end(), {0.3, 0.51, 0.9});
  return speeds;
}
constexpr double speed_of_three = 0.3 + 0.51 + 0.9;

// Variance over mean of what a server gets in each second: 1 of a Poisson process; less, if the
// picker evens it out; much more, if it swings.
double unevenness(const VirtualFleet& fleet, std::size_t server, Moment from) {
  const auto counts = fleet.picks_per(1, server, from);
  double mean = 0;
  for (const double count : counts) mean += count / static_cast<double>(counts.size());
  double variance = 0;
  for (const double count : counts) {
    variance += (count - mean) * (count - mean) / static_cast<double>(counts.size());
  }
  return variance / mean;
}

class Informed : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, Informed,
                         ::testing::Values("weighted", "least-latency", "queue-depth", "gpu"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(Informed, BeatsRoundRobinOverUnequalServersByFar) {
  const Traffic traffic = steady(0.8 * capacity * speed_of_three);
  VirtualFleet blind(pool_of("round-robin"), unequal(1));
  VirtualFleet informed(pool_of(GetParam()), unequal(1));

  for (VirtualFleet* fleet : {&blind, &informed}) fleet->run(traffic, 90);

  EXPECT_LT(informed.p99_first_token(30), 0.5 * blind.p99_first_token(30));
  EXPECT_LT(informed.p99_whole(30), 0.5 * blind.p99_whole(30));
}

TEST_P(Informed, GivesEachWhatItCanCarry) {
  VirtualFleet fleet(pool_of(GetParam()), unequal(1));

  fleet.run(steady(0.8 * capacity * speed_of_three), 120);

  // By speed 0.18, 0.30 and 0.53; one that goes by latency gives the fastest a little more.
  EXPECT_NEAR(fleet.share(0, 60), 0.16, 0.06);
  EXPECT_NEAR(fleet.share(1, 60), 0.29, 0.06);
  EXPECT_NEAR(fleet.share(2, 60), 0.55, 0.10);
}

TEST_P(Informed, DoesNotSwingWithManyServersAndWorkers) {
  VirtualFleet fleet(pool_of(GetParam()), unequal(8), 0, 16);

  fleet.run(steady(0.8 * capacity * speed_of_three * 8), 60);

  for (std::size_t server = 0; server < 24; ++server) {
    EXPECT_LT(unevenness(fleet, server, 20), 3.5) << "server " << server;
    EXPECT_GT(fleet.share(server, 20), 0.004) << "server " << server << " of 24 starves";
  }
}

TEST_P(Informed, DoesNotSwingInAPoolThatIsSampled) {
  VirtualFleet fleet(pool_of(GetParam()), unequal(16), 0, 16);

  fleet.run(steady(0.8 * capacity * speed_of_three * 16), 40);

  for (std::size_t server = 0; server < 48; ++server) {
    EXPECT_LT(unevenness(fleet, server, 20), 3.5) << "server " << server;
    EXPECT_GT(fleet.share(server, 20), 0.002) << "server " << server << " of 48 starves";
  }
}

TEST_P(Informed, IsFairToEqualServers) {
  VirtualFleet fleet(pool_of(GetParam()), {0.5, 0.5, 0.5, 0.5});

  fleet.run(steady(0.7 * capacity * 2), 120);

  for (std::size_t server = 0; server < 4; ++server) {
    EXPECT_NEAR(fleet.share(server, 40), 0.25, 0.05) << "server " << server;
  }
}

TEST_P(Informed, LeavesMostToTheOthersWhenOneBecomesSlow) {
  VirtualFleet fleet(pool_of(GetParam()), {0.5, 0.5, 0.5, 0.5});
  const Traffic traffic = steady(0.5 * capacity * 2);
  fleet.run(traffic, 60);
  ASSERT_NEAR(fleet.share(1, 30), 0.25, 0.06);

  fleet.slow_down(1, 4);
  fleet.run(traffic, 60);
  EXPECT_LT(fleet.share(1, fleet.now() - 30), 0.16);
  EXPECT_GT(fleet.share(1, fleet.now() - 30), 0.01) << "nobody learns whether it has recovered";

  fleet.slow_down(1, 1);
  fleet.run(traffic, 90);
  EXPECT_NEAR(fleet.share(1, fleet.now() - 30), 0.25, 0.07) << "it has";
}

TEST_P(Informed, DoesNotRunOverOneThatComesBack) {
  VirtualFleet fleet(pool_of(GetParam()), {0.5, 0.5, 0.5, 0.5});
  const Traffic traffic = steady(0.6 * capacity * 2);
  fleet.load(3).close(Closure::unhealthy);
  fleet.run(traffic, 60);
  const double before = fleet.p99_first_token(30);

  fleet.state().backends()[3]->reopen(Closure::unhealthy);
  const Moment back = fleet.now();
  std::uint32_t most = 0;
  std::uint32_t others = 0;
  for (int i = 0; i < 20; ++i) {
    fleet.run(traffic, 0.25);
    most = std::max(most, fleet.running(3));
    for (std::size_t server : {0u, 1u, 2u}) others = std::max(others, fleet.running(server));
  }
  fleet.run(traffic, 30);

  EXPECT_LE(most, others + 8);
  EXPECT_LT(fleet.p99_first_token(back), 1.5 * before + 0.1);
  EXPECT_NEAR(fleet.share(3, back + 10), 0.25, 0.07);
}

TEST(QueueDepthFleet, SeesTheWorkOfOthers) {
  VirtualFleet blind(pool_of("least-connections"), {0.5, 0.5});
  VirtualFleet seeing(pool_of("queue-depth"), {0.5, 0.5});
  for (VirtualFleet* fleet : {&blind, &seeing}) {
    fleet->work_for_others(0, 60);
    fleet->run(steady(0.5 * capacity), 30);
  }

  EXPECT_GT(blind.share(0, 5), 0.4) << "it takes the busy one for as idle as the other";
  EXPECT_LT(seeing.share(0, 5), 0.1);
}

TEST(QueueDepthFleet, IsLeastConnectionsWhereNothingIsPolled) {
  VirtualFleet fleet(pool_of("queue-depth"), unequal(1));
  fleet.never_poll();

  fleet.run(steady(0.8 * capacity * speed_of_three), 90);

  EXPECT_NEAR(fleet.share(2, 30), 0.53, 0.08);
}

TEST(GpuFleet, StopsSendingToAServerBeforeItsMemoryIsFull) {
  VirtualFleet fleet(pool_of("gpu"), {0.5, 0.5, 0.5});
  const Traffic traffic = steady(0.5 * capacity * 1.5);
  for (std::size_t server = 0; server < 3; ++server) fleet.fill_memory(server, 0.7);
  fleet.run(traffic, 30);

  // A leak: one percent a second.
  Moment over = 0;
  for (int percent = 70; percent <= 100; ++percent) {
    fleet.fill_memory(0, percent / 100.0);
    fleet.run(traffic, 1);
    if (percent == 96) over = fleet.now();
  }

  EXPECT_EQ(fleet.share(0, over), 0) << "from the poll that told of 0.96";
  EXPECT_GT(fleet.share(1, over), 0.4);
}

// Six servers and two spares; the calm load is an eighth of the blast's, which six cannot carry.
class StandbyFleet : public ::testing::Test {
 protected:
  StandbyFleet() : fleet(spec(), std::vector<double>(8, 0.3), 2) {}
  static PoolSpec spec() {
    PoolSpec spec = pool_of("least-connections");
    spec.spares.dwell = std::chrono::seconds(5);
    return spec;
  }
  static constexpr double calm = 0.16 * capacity * 0.3 * 6;
  bool both_in() { return fleet.load(6).open() && fleet.load(7).open(); }
  bool both_out() { return !fleet.load(6).open() && !fleet.load(7).open(); }
  // Thirty seconds of it; when both were in, after so long.
  Moment blast() {
    const Moment began = fleet.now();
    Moment entered = 0;
    while (fleet.now() < began + 30) {
      fleet.run(steady(8 * calm), 0.1);
      if (entered == 0 && both_in()) entered = fleet.now();
    }
    return entered - began;
  }

  VirtualFleet fleet;
};

TEST_F(StandbyFleet, SparesComeForABlastAndGoAfterIt) {
  fleet.run(steady(calm), 20);
  EXPECT_TRUE(both_out());

  const Moment took = blast();
  EXPECT_GT(took, 0);
  EXPECT_LT(took, 5);
  fleet.run(steady(calm), 40);

  EXPECT_TRUE(both_out());
  EXPECT_LT(fleet.p99_first_token(), 2);
}

TEST_F(StandbyFleet, SparesComeForABlastWhereEnginesTellNothing) {
  fleet.never_poll();
  fleet.run(steady(calm), 20);

  const Moment took = blast();
  EXPECT_GT(took, 0);
  EXPECT_LT(took, 5);
  fleet.run(steady(calm), 40);

  EXPECT_TRUE(both_out());
}

TEST_F(StandbyFleet, SparesStayOutOfALoadThatTheOthersCarry) {
  for (int i = 0; i < 600; ++i) {
    fleet.run(steady((i / 60 % 2 == 0 ? 3.5 : 1) * calm), 1);
    ASSERT_TRUE(both_out()) << "after " << fleet.now() << " s";
  }
}

}  // namespace
}  // namespace evenkeel::testing
