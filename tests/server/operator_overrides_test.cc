#include "server/operator_overrides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

using Key = std::pair<std::string, std::string>;

Config with_backends(const std::vector<std::pair<std::uint16_t, std::uint32_t>>& weights) {
  Config config;
  PoolConfig pool;
  pool.name = "chat";
  for (const auto& [port, weight] : weights) {
    BackendConfig backend;
    backend.address = {"127.0.0.1", port};
    backend.weight = weight;
    pool.backends.push_back(backend);
  }
  config.pools.push_back(pool);
  return config;
}

std::shared_ptr<const PoolSet> built(const Config& config) {
  auto pool_set = PoolSet::build(config);
  EXPECT_TRUE(pool_set.ok());
  return *pool_set;
}

TEST(OperatorOverrides, AWeightHoldsWhileTheFileSaysTheSame) {
  OperatorOverrides overrides;
  overrides.set_weights(overrides.weights_with("chat", "127.0.0.1:1", 9));
  const Config current = with_backends({{1, 1}, {2, 1}});

  EXPECT_THAT(overrides.weights_for(with_backends({{1, 1}, {2, 5}}), current),
              ElementsAre(Pair(Key("chat", "127.0.0.1:1"), 9)));
  EXPECT_THAT(overrides.weights_for(with_backends({{1, 3}, {2, 1}}), current), IsEmpty())
      << "the file has another weight";
  EXPECT_THAT(overrides.weights_for(with_backends({{2, 1}}), current), IsEmpty())
      << "the file has the backend no more";
}

TEST(OperatorOverrides, AWeightOfOneServerBehindANameFollowsThatName) {
  OperatorOverrides overrides;
  overrides.set_weights(overrides.weights_with("chat", "127.0.0.1:1@10.0.0.7", 9));
  const Config current = with_backends({{1, 1}});

  EXPECT_THAT(overrides.weights_for(current, current),
              ElementsAre(Pair(Key("chat", "127.0.0.1:1@10.0.0.7"), 9)));
  EXPECT_THAT(overrides.weights_for(with_backends({{1, 2}}), current), IsEmpty());
}

TEST(OperatorOverrides, RecordsWhichBackendsAreDrained) {
  OperatorOverrides overrides;
  const Config config = with_backends({{1, 1}, {2, 1}});
  const auto pool_set = built(config);
  const BackendPtr backend = pool_set->pools()[0].state->backends()[0];

  backend->load().take_out(OutOfRotation::draining);
  overrides.record_drained(*pool_set, config);
  EXPECT_THAT(overrides.drained(), ElementsAre(Key("chat", "127.0.0.1:1")));

  backend->put_back(OutOfRotation::draining);
  overrides.record_drained(*pool_set, config);
  EXPECT_THAT(overrides.drained(), IsEmpty());
}

TEST(OperatorOverrides, ForgetsTheDrainOfABackendThatTheFileHasNoMore) {
  OperatorOverrides overrides;
  const Config config = with_backends({{1, 1}, {2, 1}});
  const auto pool_set = built(config);
  pool_set->pools()[0].state->backends()[0]->load().take_out(OutOfRotation::draining);
  overrides.record_drained(*pool_set, config);

  const Config smaller = with_backends({{2, 1}});
  overrides.record_drained(*built(smaller), smaller);

  EXPECT_THAT(overrides.drained(), IsEmpty());
}

}  // namespace
}  // namespace evenkeel
