#include "evenkeel/stats/worker_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace evenkeel::testing {
namespace {

using namespace std::chrono_literals;

TEST(LabelIndex, KeepsIndicesStable) {
  LabelIndex label_index;
  LabelUses uses(label_index);

  const auto first = uses.pool("llama");
  const auto second = uses.pool("qwen");

  EXPECT_EQ(first, 1u);
  EXPECT_EQ(second, 2u);
  EXPECT_EQ(uses.pool("llama"), first);
  EXPECT_EQ(label_index.view().pools, (std::vector<std::string>{"", "llama", "qwen"}));
}

TEST(LabelIndex, DistinguishesTheSameBackendInTwoPools) {
  LabelIndex label_index;
  LabelUses uses(label_index);

  EXPECT_NE(uses.backend("a", "gpu1:8000"), uses.backend("b", "gpu1:8000"));
  EXPECT_EQ(uses.backend("a", "gpu1:8000"), uses.backend("a", "gpu1:8000"));
}

TEST(LabelIndex, ForgetsNamesThatNoPlanUsesAnyMore) {
  LabelIndex label_index;
  std::optional<LabelUses> old_plan(std::in_place, label_index);
  const auto pool = old_plan->pool("llama");
  const auto route = old_plan->route("/v1/**");
  label_index.add_route_to_pool(route, pool);
  LabelUses new_plan(label_index);
  new_plan.pool("qwen");
  EXPECT_TRUE(label_index.view().has_pool(pool));

  old_plan.reset();

  EXPECT_FALSE(label_index.view().has_pool(pool));
  EXPECT_FALSE(label_index.view().has_route(route));
  EXPECT_TRUE(label_index.view().route_pools.empty());
  EXPECT_EQ(new_plan.pool("llama"), pool);  // its counters go on
  EXPECT_TRUE(label_index.view().has_pool(pool));
}

/// The names of one version of a file, which later ones do not have.
std::string name_of(std::size_t version, std::size_t number) {
  return std::to_string(version) + "/" + std::to_string(number);
}

TEST(LabelIndex, ReusesTheIndicesOfNamesThatWereForgotten) {
  constexpr std::size_t names = 100;
  LabelIndex label_index;
  std::uint32_t largest = 0;

  for (std::size_t version = 0; version < 50; ++version) {
    LabelUses plan(label_index);
    for (std::size_t i = 0; i < names; ++i) {
      const std::string name = name_of(version, i);
      const std::uint32_t pool = plan.pool(name);
      const std::uint32_t route = plan.route(name);
      label_index.add_route_to_pool(route, pool);
      largest = std::max({largest, pool, route, plan.backend(name, "a:1"), plan.tenant(name)});
      EXPECT_EQ(label_index.view().pools[pool], name);
    }
    EXPECT_EQ(label_index.view().route_pools.size(), names);
  }

  EXPECT_LE(largest, LabelNames::max_former + 2 * names + 1);
  EXPECT_EQ(label_index.find_backend(name_of(0, 0), "a:1"), 0u);
  EXPECT_NE(label_index.find_backend(name_of(49, 0), "a:1"), 0u);
}

TEST(LabelIndex, KeepsTheNamesThatWereUsedLast) {
  LabelIndex label_index;
  std::optional<LabelUses> plan(std::in_place, label_index);
  std::vector<std::uint32_t> indices;
  for (std::size_t i = 0; i <= LabelNames::max_former; ++i) {
    indices.push_back(plan->pool(name_of(0, i)));
  }
  std::optional<LabelUses> other_plan(std::in_place, label_index);
  other_plan->pool(name_of(0, 0));

  plan.reset();
  other_plan.reset();  // one too many: the first of those that the other plan did not use

  LabelUses next(label_index);
  EXPECT_EQ(next.pool(name_of(0, 0)), indices[0]);
  EXPECT_EQ(next.pool(name_of(0, 2)), indices[2]);
  EXPECT_EQ(next.pool("new"), indices[1]);
}

/// Counts a request in everything that a name has.
void count_everywhere(WorkerMetrics& metrics, std::uint32_t pool, std::uint32_t route,
                      std::uint32_t backend, std::uint32_t tenant) {
  metrics.count({.pool = pool,
                 .route = route,
                 .status = 200,
                 .grpc_status = 0,
                 .duration = 1s,
                 .first_byte = 1s});
  metrics.count({.pool = pool, .status = 404, .duration = 1s});
  metrics.count({.route = route, .status = 404, .duration = 1s});
  metrics.count_error(pool, Fault::no_backend);
  metrics.pool(pool).in_flight.add();
  metrics.model(pool, 2).tokens.add(TokenDirection::input, 5);
  metrics.backend(backend).count_status(200);
  metrics.backend(backend).latency.observe(1s);
  metrics.tenant(tenant).requests.add();
}

TEST(MetricsRegistry, CountsNothingOfANameForTheOneThatHasItsIndexNext) {
  MetricsRegistry registry(2);
  WorkerMetrics& metrics = registry.worker_metrics(1);
  std::optional<LabelUses> plan(std::in_place, registry.label_index());
  const std::uint32_t pool = plan->pool("a");
  const std::uint32_t route = plan->route("a");
  const std::uint32_t backend = plan->backend("a", "a:1");
  const std::uint32_t tenant = plan->tenant("a");
  count_everywhere(metrics, pool, route, backend, tenant);
  const std::vector<const StatusCounters*> before = {metrics.find_requests(route, pool),
                                                     metrics.find_requests(route, 0)};
  ASSERT_EQ(before[0]->value(200), 1u);

  plan.reset();
  {
    LabelUses others(registry.label_index());
    for (std::size_t i = 0; i < LabelNames::max_former; ++i) {
      const std::string name = name_of(0, i);
      others.pool(name);
      others.route(name);
      others.backend(name, name);
      others.tenant(name);
    }
  }

  LabelUses next(registry.label_index());
  EXPECT_EQ(next.pool("b"), pool);
  EXPECT_EQ(next.route("b"), route);
  EXPECT_EQ(next.backend("b", "b:1"), backend);
  EXPECT_EQ(next.tenant("b"), tenant);
  EXPECT_EQ(metrics.find_requests(route, pool), nullptr);
  EXPECT_EQ(metrics.find_requests(0, pool), nullptr);
  EXPECT_EQ(metrics.find_requests(route, 0), nullptr);
  EXPECT_EQ(metrics.find_grpc(route, pool), nullptr);
  EXPECT_EQ(metrics.find_model(pool, 2), nullptr);
  EXPECT_EQ(registry.in_flight(pool), 0);
  HistogramTotals durations;
  metrics.find_pool(pool)->duration.add_to(durations);
  EXPECT_EQ(durations.sum_seconds, 0);
  EXPECT_EQ(metrics.find_pool(pool)->errors.value(Fault::no_backend), 0u);
  EXPECT_EQ(registry.backend_totals(backend).status_classes[1], 0u);
  EXPECT_EQ(registry.backend_totals(backend).latency.sum_seconds, 0);
  EXPECT_EQ(metrics.find_tenant(tenant)->requests.value(), 0u);
  // What is counted now takes no more memory.
  metrics.count({.pool = pool, .route = route, .status = 200, .duration = 1s});
  const StatusCounters* const counters = metrics.find_requests(route, pool);
  EXPECT_EQ(counters->value(200), 1u);
  EXPECT_TRUE(std::ranges::find(before, counters) != before.end());
}

// For TSan. Each worker replaces its plan again and again; a page reads what they count meanwhile.
TEST(MetricsRegistry, ForgetsNamesWhileOthersAreCounted) {
  constexpr unsigned workers = 2;
  MetricsRegistry registry(workers);
  std::atomic<unsigned> running{workers};
  const auto work = [&](unsigned number) {
    WorkerMetrics& metrics = registry.worker_metrics(number);
    LabelUses stays(registry.label_index());
    const std::uint32_t route = stays.route("route");
    for (std::size_t version = 0; version < 100; ++version) {
      LabelUses plan(registry.label_index());
      for (std::size_t i = 0; i < 20; ++i) {
        const std::string name = std::to_string(number) + "/" + name_of(version, i);
        const std::uint32_t pool = plan.pool(name);
        ASSERT_EQ(registry.in_flight(pool), 0);
        count_everywhere(metrics, pool, plan.route(name), plan.backend(name, name),
                         plan.tenant(name));
        metrics.count({.pool = pool, .route = route, .status = 200, .duration = 1s});
        ASSERT_EQ(metrics.find_requests(route, pool)->value(200), 1u);
      }
    }
    --running;
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < workers; ++i) threads.emplace_back(work, i);

  std::uint64_t read = 0;
  while (running > 0) {
    const LabelIndex::View view = registry.label_index().view();
    for (std::uint32_t pool = 0; pool < view.pools.size(); ++pool) {
      for (unsigned i = 0; i < workers; ++i) {
        const StatusCounters* const counters = registry.worker_metrics(i).find_requests(1, pool);
        read += counters == nullptr ? 0 : counters->value(200);
      }
      read += registry.backend_totals(pool).status_classes[1];
    }
  }
  for (std::thread& each : threads) each.join();

  EXPECT_GT(read, 0u);
  EXPECT_EQ(registry.label_index().view().has_route(1), false);
}

TEST(LabelIndex, ListsEachRoutePoolPairOnceAndInOrder) {
  LabelIndex label_index;
  LabelUses uses(label_index);
  uses.pool("a");
  uses.pool("b");
  uses.route("x");
  uses.route("y");

  label_index.add_route_to_pool(2, 1);
  label_index.add_route_to_pool(1, 2);
  label_index.add_route_to_pool(2, 1);

  using RoutePools = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  EXPECT_EQ(label_index.view().route_pools, (RoutePools{{1, 2}, {2, 1}}));
}

TEST(ChunkedArray, KeepsAddressesWhileItGrows) {
  ChunkedArray<Counter> counters;
  Counter* first = &counters.at(0);
  first->add(7);

  for (std::uint32_t i = 1; i < 10'000; ++i) counters.at(i).add(i);

  EXPECT_EQ(&counters.at(0), first);
  for (std::uint32_t i = 1; i < 10'000; ++i) ASSERT_EQ(counters.find(i)->value(), i);
}

TEST(ChunkedArray, FindsNothingInUnusedChunks) {
  ChunkedArray<Counter> counters;
  counters.at(0);

  EXPECT_NE(counters.find(3), nullptr);
  EXPECT_EQ(counters.find(4), nullptr);
  EXPECT_EQ(counters.find(ChunkedArray<Counter>::limit - 1), nullptr);
}

TEST(SparseArray, KeepsAddressesAndMakesNoOtherItems) {
  SparseArray<Counter> counters;
  Counter* first = &counters.at(70'000);
  first->add(7);

  for (std::uint32_t i = 0; i < 100; ++i) counters.at(i).add(i);

  EXPECT_EQ(&counters.at(70'000), first);
  EXPECT_EQ(counters.find(70'000)->value(), 7u);
  for (std::uint32_t i = 0; i < 100; ++i) ASSERT_EQ(counters.find(i)->value(), i);
  EXPECT_EQ(counters.find(100), nullptr);
}

TEST(SparseArray, IsReadWhileItGrows) {
  constexpr std::uint32_t items = 1000;
  SparseArray<Counter> counters;
  std::thread writer([&] {
    for (std::uint32_t i = 0; i < items; ++i) counters.at(i).add();
  });

  std::uint32_t found = 0;
  while (found < items) found += counters.find(found) != nullptr ? 1 : 0;

  writer.join();
  EXPECT_EQ(counters.find(items - 1)->value(), 1u);
}

TEST(StatusCounters, CountEachStatusAndInvalidOnesAsZero) {
  StatusCounters counters;

  for (const int status : {100, 200, 200, 599, 0, 99, 600, -1}) counters.count(status);

  EXPECT_EQ(counters.value(100), 1u);
  EXPECT_EQ(counters.value(200), 2u);
  EXPECT_EQ(counters.value(201), 0u);
  EXPECT_EQ(counters.value(404), 0u);
  EXPECT_EQ(counters.value(599), 1u);
  EXPECT_EQ(counters.value(0), 4u);
}

TEST(WorkerMetrics, CountsARequestByRoutePoolAndStatus) {
  WorkerMetrics worker_metrics;

  worker_metrics.count(
      {.pool = 2, .route = 1, .status = 200, .duration = 1s, .response_bytes = 10});
  worker_metrics.count({.pool = 2, .route = 1, .status = 503, .duration = 1ms, .request_bytes = 5});

  EXPECT_EQ(worker_metrics.find_requests(1, 2)->value(200), 1u);
  EXPECT_EQ(worker_metrics.find_requests(1, 2)->value(503), 1u);
  EXPECT_EQ(worker_metrics.find_requests(1, 1), nullptr);
  EXPECT_EQ(worker_metrics.find_requests(9, 2), nullptr);
  EXPECT_EQ(worker_metrics.request_bytes(), 5u);
  EXPECT_EQ(worker_metrics.response_bytes(), 10u);
}

TEST(WorkerMetrics, ObservesOnlyKnownValues) {
  WorkerMetrics worker_metrics;

  worker_metrics.count({.pool = 1, .route = 1, .status = 200, .first_byte = 2ms, .waited = 1ms});
  worker_metrics.count({.pool = 1, .route = 1, .status = 502});

  HistogramTotals first_byte;
  HistogramTotals wait;
  HistogramTotals overhead;
  worker_metrics.find_pool(1)->first_byte.add_to(first_byte);
  worker_metrics.find_pool(1)->wait.add_to(wait);
  worker_metrics.overhead().add_to(overhead);
  EXPECT_DOUBLE_EQ(first_byte.sum_seconds, 2e-3);
  EXPECT_EQ(first_byte.counts[0], 0u);
  EXPECT_EQ(wait.counts[0], 2u);
  EXPECT_EQ(overhead.sum_seconds, 0);
}

TEST(MetricsRegistry, SumsGaugesThatMoveBetweenWorkers) {
  MetricsRegistry metrics_registry(2);

  metrics_registry.worker_metrics(0).listener(1).opened.add(3);
  metrics_registry.worker_metrics(1).listener(1).closed.add(2);
  metrics_registry.worker_metrics(0).pool(1).in_flight.add();
  metrics_registry.worker_metrics(1).pool(1).in_flight.add();
  metrics_registry.worker_metrics(1).pool(1).waiting.add();

  EXPECT_EQ(metrics_registry.connections(1), 1);
  EXPECT_EQ(metrics_registry.in_flight(1), 2);
  EXPECT_EQ(metrics_registry.waiting(1), 1);
}

TEST(MetricsRegistry, SumsABackendOverWorkersEvenIfUnused) {
  MetricsRegistry metrics_registry(3);
  metrics_registry.worker_metrics(0).backend(1).links_idle.add(2);
  metrics_registry.worker_metrics(2).backend(1).links_busy.add();
  metrics_registry.worker_metrics(2).backend(1).latency.observe(2s);

  const BackendTotals used = metrics_registry.backend_totals(1);
  const BackendTotals unused = metrics_registry.backend_totals(500);

  EXPECT_EQ(used.links_idle, 2);
  EXPECT_EQ(used.links_busy, 1);
  EXPECT_DOUBLE_EQ(used.latency.sum_seconds, 2);
  EXPECT_EQ(unused.latency.counts.size(), request_bounds.size() + 1);
}

TEST(MetricsRegistry, CanBeReadWhileItGrows) {
  constexpr std::uint32_t pools = 300;
  constexpr int rounds = 100;
  MetricsRegistry metrics_registry(2);
  const auto write = [&](unsigned worker) {
    for (int round = 0; round < rounds; ++round) {
      for (std::uint32_t pool = 1; pool < pools; ++pool) {
        metrics_registry.worker_metrics(worker).pool(pool).in_flight.add();
        metrics_registry.worker_metrics(worker).count(
            {.pool = pool, .route = pool % 7, .status = 200});
      }
    }
  };

  std::thread one(write, 0);
  std::thread other(write, 1);
  std::int64_t seen = 0;
  const std::int64_t all = std::int64_t{2} * rounds;
  while (seen < all) {
    const std::int64_t now = metrics_registry.in_flight(pools - 1);
    ASSERT_GE(now, seen);
    seen = now;
  }
  one.join();
  other.join();

  for (std::uint32_t pool = 1; pool < pools; ++pool) {
    ASSERT_EQ(metrics_registry.in_flight(pool), all);
    ASSERT_EQ(metrics_registry.worker_metrics(0).find_requests(pool % 7, pool)->value(200),
              std::uint64_t{rounds});
  }
}

}  // namespace
}  // namespace evenkeel::testing
