#include "evenkeel/upstream/subsets.h"

#include <gtest/gtest.h>

#include "built_pools.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {
namespace {

const BackendLabels v7{{"version", "v7"}};
const BackendLabels v8{{"version", "v8"}};

Config config_with(std::vector<std::vector<RouteTarget>> routes) {
  Config config;
  PoolConfig pool{.name = "llama"};
  pool.backends = {{.address = {"127.0.0.1", 1}, .labels = v7},
                   {.address = {"127.0.0.1", 2}, .labels = v8}};
  config.pools.push_back(pool);
  config.pools.push_back({.name = "other", .backends = {{.address = {"127.0.0.1", 3}}}});
  for (auto& targets : routes) config.routes.push_back({.targets = std::move(targets)});
  return config;
}

TEST(Subsets, AreThoseThatTheRoutesOfThePoolName) {
  const Config config = config_with(
      {{{"llama", 1, v8}}, {{"llama", 0, v7}, {"llama", 5, v8}}, {{"llama", 1}}, {{"other", 1}}});

  auto subsets = subsets_of(config);

  EXPECT_EQ(subsets["llama"], (std::vector<SubsetSpec>{{.any_of = {v8}}, {.any_of = {v7}}}));
  EXPECT_TRUE(subsets["other"].empty());
}

TEST(Subsets, HaveOneForTheSessionsOfEachRoute) {
  const Config config =
      config_with({{{"llama", 95, v7}, {"llama", 5, v8}}, {{"llama", 100, v7}, {"llama", 0, v8}}});

  EXPECT_EQ(subsets_of(config)["llama"],
            (std::vector<SubsetSpec>{{.any_of = {v7}}, {.any_of = {v7, v8}}, {.any_of = {v8}}}));
  EXPECT_EQ(session_subset_of(config.routes[1], "llama"), SubsetSpec{.any_of = {v7}});
}

TEST(Subsets, ReachThePools) {
  const Config config = config_with({{{"llama", 95, v7}, {"llama", 5, v8}}});
  const auto pools = *build_pools(config);
  const PoolState& llama = *pools->pools()[0].state;

  const std::uint32_t number =
      llama.backend_set().number_of(subset_of(config.routes[0].targets[1]));

  ASSERT_NE(number, 0u);
  EXPECT_EQ(llama.backend_set().of(number), Backends{llama.backends()[1]});
  EXPECT_EQ(llama.backend_set().number_of(subset_of({.pool = "llama"})), 0u);
}

}  // namespace
}  // namespace evenkeel
