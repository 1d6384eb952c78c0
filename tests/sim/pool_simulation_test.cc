// The pickers with a fleet of simulated engines in virtual time: whether they use the capacity,
// settle, and adapt.
#include "sim/pool_simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace evenkeel::testing {
namespace {

// Capacity of an engine of speed 1 for this traffic, in requests per second.
constexpr double capacity = 22;

PoolSpec pool_of(const std::string& picker) {
  PoolSpec spec;
  spec.config.name = "llama";
  spec.config.picker.name = picker;
  spec.config.picker.weights = WeightSource::observed;
  return spec;
}

std::vector<double> unequal(std::size_t groups_of_three) {
  std::vector<double> speeds;
  for (std::size_t i = 0; i < groups_of_three; ++i) speeds.insert(speeds.end(), {0.3, 0.51, 0.9});
  return speeds;
}
constexpr double speed_of_three = 0.3 + 0.51 + 0.9;

// Variance over mean of a server's picks per second: 1 for a Poisson process; less where the picker
// smooths it; much more where the picker oscillates.
double dispersion(const PoolSimulation& simulation, std::size_t server, VirtualSeconds from) {
  const auto counts = simulation.picks_per(1, server, from);
  double mean = 0;
  for (const double count : counts) mean += count / static_cast<double>(counts.size());
  double variance = 0;
  for (const double count : counts) {
    variance += (count - mean) * (count - mean) / static_cast<double>(counts.size());
  }
  return variance / mean;
}

class LoadAwarePicker : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, LoadAwarePicker,
                         ::testing::Values("weighted", "least-latency", "queue-depth", "gpu"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(LoadAwarePicker, BeatsRoundRobinOnUnequalServers) {
  const Traffic traffic = steady(0.8 * capacity * speed_of_three);
  PoolSimulation blind(pool_of("round-robin"), unequal(1));
  PoolSimulation load_aware(pool_of(GetParam()), unequal(1));

  for (PoolSimulation* simulation : {&blind, &load_aware}) simulation->run(traffic, 90);

  EXPECT_LT(load_aware.p99_ttft(30), 0.5 * blind.p99_ttft(30));
  EXPECT_LT(load_aware.p99_e2e_latency(30), 0.5 * blind.p99_e2e_latency(30));
}

TEST_P(LoadAwarePicker, SharesMatchCapacity) {
  PoolSimulation simulation(pool_of(GetParam()), unequal(1));

  simulation.run(steady(0.8 * capacity * speed_of_three), 120);

  // By speed 0.18, 0.30 and 0.53; a picker by latency gives the fastest a little more.
  EXPECT_NEAR(simulation.share(0, 60), 0.16, 0.06);
  EXPECT_NEAR(simulation.share(1, 60), 0.29, 0.06);
  EXPECT_NEAR(simulation.share(2, 60), 0.55, 0.10);
}

TEST_P(LoadAwarePicker, DoesNotOscillateWithManyServersAndWorkers) {
  PoolSimulation simulation(pool_of(GetParam()), unequal(8), 0, 16);

  simulation.run(steady(0.8 * capacity * speed_of_three * 8), 60);

  for (std::size_t server = 0; server < 24; ++server) {
    EXPECT_LT(dispersion(simulation, server, 20), 3.5) << "server " << server;
    EXPECT_GT(simulation.share(server, 20), 0.004) << "server " << server << " of 24 starves";
  }
}

TEST_P(LoadAwarePicker, DoesNotOscillateInASampledPool) {
  PoolSimulation simulation(pool_of(GetParam()), unequal(16), 0, 16);

  simulation.run(steady(0.8 * capacity * speed_of_three * 16), 40);

  for (std::size_t server = 0; server < 48; ++server) {
    EXPECT_LT(dispersion(simulation, server, 20), 3.5) << "server " << server;
    EXPECT_GT(simulation.share(server, 20), 0.002) << "server " << server << " of 48 starves";
  }
}

TEST_P(LoadAwarePicker, IsFairToEqualServers) {
  PoolSimulation simulation(pool_of(GetParam()), {0.5, 0.5, 0.5, 0.5});

  simulation.run(steady(0.7 * capacity * 2), 120);

  for (std::size_t server = 0; server < 4; ++server) {
    EXPECT_NEAR(simulation.share(server, 40), 0.25, 0.05) << "server " << server;
  }
}

TEST_P(LoadAwarePicker, ShiftsLoadAwayFromASlowServer) {
  PoolSimulation simulation(pool_of(GetParam()), {0.5, 0.5, 0.5, 0.5});
  const Traffic traffic = steady(0.5 * capacity * 2);
  simulation.run(traffic, 60);
  ASSERT_NEAR(simulation.share(1, 30), 0.25, 0.06);

  simulation.slow_down(1, 4);
  simulation.run(traffic, 60);
  EXPECT_LT(simulation.share(1, simulation.now() - 30), 0.16);
  EXPECT_GT(simulation.share(1, simulation.now() - 30), 0.01)
      << "some traffic must show whether it has recovered";

  simulation.slow_down(1, 1);
  simulation.run(traffic, 90);
  EXPECT_NEAR(simulation.share(1, simulation.now() - 30), 0.25, 0.07) << "it has";
}

TEST_P(LoadAwarePicker, DoesNotFloodAReturningServer) {
  PoolSimulation simulation(pool_of(GetParam()), {0.5, 0.5, 0.5, 0.5});
  const Traffic traffic = steady(0.6 * capacity * 2);
  simulation.shared(3).state.take_out(OutOfRotation::unhealthy);
  simulation.run(traffic, 60);
  const double before = simulation.p99_ttft(30);

  simulation.state().backends()[3]->put_back(OutOfRotation::unhealthy);
  const VirtualSeconds back = simulation.now();
  std::uint32_t max_rate = 0;
  std::uint32_t others = 0;
  for (int i = 0; i < 20; ++i) {
    simulation.run(traffic, 0.25);
    max_rate = std::max(max_rate, simulation.running(3));
    for (std::size_t server : {0u, 1u, 2u}) others = std::max(others, simulation.running(server));
  }
  simulation.run(traffic, 30);

  EXPECT_LE(max_rate, others + 8);
  EXPECT_LT(simulation.p99_ttft(back), 1.5 * before + 0.1);
  EXPECT_NEAR(simulation.share(3, back + 10), 0.25, 0.07);
}

TEST(QueueDepthSimulation, SeesForeignRequests) {
  PoolSimulation blind(pool_of("least-connections"), {0.5, 0.5});
  PoolSimulation seeing(pool_of("queue-depth"), {0.5, 0.5});
  for (PoolSimulation* simulation : {&blind, &seeing}) {
    simulation->add_foreign_requests(0, 60);
    simulation->run(steady(0.5 * capacity), 30);
  }

  EXPECT_GT(blind.share(0, 5), 0.4) << "it takes the busy one for as idle as the other";
  EXPECT_LT(seeing.share(0, 5), 0.1);
}

TEST(QueueDepthSimulation, EqualsLeastConnectionsWithoutPolling) {
  PoolSimulation simulation(pool_of("queue-depth"), unequal(1));
  simulation.disable_polling();

  simulation.run(steady(0.8 * capacity * speed_of_three), 90);

  EXPECT_NEAR(simulation.share(2, 30), 0.53, 0.08);
}

TEST(GpuSimulation, StopsSendingToAServerBeforeItsMemoryIsFull) {
  PoolSimulation simulation(pool_of("gpu"), {0.5, 0.5, 0.5});
  const Traffic traffic = steady(0.5 * capacity * 1.5);
  for (std::size_t server = 0; server < 3; ++server) simulation.set_memory_ratio(server, 0.7);
  simulation.run(traffic, 30);

  // A leak: one percent per second.
  VirtualSeconds over = 0;
  for (int percent = 70; percent <= 100; ++percent) {
    simulation.set_memory_ratio(0, percent / 100.0);
    simulation.run(traffic, 1);
    if (percent == 96) over = simulation.now();
  }

  EXPECT_EQ(simulation.share(0, over), 0) << "from the poll that told of 0.96";
  EXPECT_GT(simulation.share(1, over), 0.4);
}

// Six servers and two standby backends; the burst is eight times the baseline, and more than six
// can serve.
class StandbySimulation : public ::testing::Test {
 protected:
  StandbySimulation() : simulation(spec(), std::vector<double>(8, 0.3), 2) {}
  static PoolSpec spec() {
    PoolSpec spec = pool_of("least-connections");
    spec.config.standby.dwell = std::chrono::seconds(5);
    return spec;
  }
  static constexpr double baseline_rate = 0.16 * capacity * 0.3 * 6;
  bool both_in() {
    return simulation.shared(6).state.in_rotation() && simulation.shared(7).state.in_rotation();
  }
  bool both_out() {
    return !simulation.shared(6).state.in_rotation() && !simulation.shared(7).state.in_rotation();
  }
  // Thirty seconds of it. Returns when both standby backends were in service.
  VirtualSeconds run_burst() {
    const VirtualSeconds began = simulation.now();
    VirtualSeconds both_in_at = 0;
    while (simulation.now() < began + 30) {
      simulation.run(steady(8 * baseline_rate), 0.1);
      if (both_in_at == 0 && both_in()) both_in_at = simulation.now();
    }
    return both_in_at - began;
  }

  PoolSimulation simulation;
};

TEST_F(StandbySimulation, StandbyBackendsJoinForABurstAndLeaveAfterIt) {
  simulation.run(steady(baseline_rate), 20);
  EXPECT_TRUE(both_out());

  const VirtualSeconds took = run_burst();
  EXPECT_GT(took, 0);
  EXPECT_LT(took, 5);
  simulation.run(steady(baseline_rate), 40);

  EXPECT_TRUE(both_out());
  EXPECT_LT(simulation.p99_ttft(), 2);
}

TEST_F(StandbySimulation, StandbyBackendsJoinForABurstWithoutEngineMetrics) {
  simulation.disable_polling();
  simulation.run(steady(baseline_rate), 20);

  const VirtualSeconds took = run_burst();
  EXPECT_GT(took, 0);
  EXPECT_LT(took, 5);
  simulation.run(steady(baseline_rate), 40);

  EXPECT_TRUE(both_out());
}

TEST_F(StandbySimulation, StandbyBackendsStayOutWhenActiveServersSuffice) {
  for (int i = 0; i < 600; ++i) {
    simulation.run(steady((i / 60 % 2 == 0 ? 3.5 : 1) * baseline_rate), 1);
    ASSERT_TRUE(both_out()) << "after " << simulation.now() << " s";
  }
}

}  // namespace
}  // namespace evenkeel::testing
