#include "server/operator_overrides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "built_pools.h"
#include "evenkeel/state/saved_state.h"

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
  auto pool_set = build_pools(config);
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

  backend->state().take_out(OutOfRotation::draining);
  overrides.record_drained(*pool_set, config);
  EXPECT_THAT(overrides.drained(), ElementsAre(Key("chat", "127.0.0.1:1")));

  backend->put_back(OutOfRotation::draining);
  overrides.record_drained(*pool_set, config);
  EXPECT_THAT(overrides.drained(), IsEmpty());
}

TEST(OperatorOverrides, EndsADrainWhenItsTimeIsOver) {
  using namespace std::chrono_literals;
  OperatorOverrides overrides;
  const Config config = with_backends({{1, 1}, {2, 1}});
  const auto pool_set = built(config);
  const SharedBackend& first = pool_set->pools()[0].state->backends()[0]->shared();
  const SharedBackend& second = pool_set->pools()[0].state->backends()[1]->shared();
  for (const BackendPtr& each : pool_set->pools()[0].state->backends())
    each->state().take_out(OutOfRotation::draining);
  const auto now = std::chrono::system_clock::now();
  overrides.set_drain_end("chat", "127.0.0.1:1", now + 10min);

  SavedState saved = overrides.save(*pool_set, config);
  OperatorOverrides next;
  next.restore(std::move(saved), config);

  EXPECT_THAT(next.end_drains(*pool_set, now + 9min), IsEmpty());
  EXPECT_TRUE(first.state.is_out(OutOfRotation::draining));
  EXPECT_THAT(next.end_drains(*pool_set, now + 10min), ElementsAre(Key("chat", "127.0.0.1:1")));
  EXPECT_TRUE(first.state.in_rotation());
  EXPECT_TRUE(second.state.is_out(OutOfRotation::draining)) << "its drain has no end";
  EXPECT_THAT(next.end_drains(*pool_set, now + 11min), IsEmpty());
}

TEST(OperatorOverrides, ADrainThatAnOperatorSetsAnewLasts) {
  using namespace std::chrono_literals;
  OperatorOverrides overrides;
  const Config config = with_backends({{1, 1}});
  const auto pool_set = built(config);
  pool_set->pools()[0].state->backends()[0]->state().take_out(OutOfRotation::draining);
  const auto now = std::chrono::system_clock::now();

  overrides.set_drain_end("chat", "127.0.0.1:1", now + 10min);
  overrides.set_drain_end("chat", "127.0.0.1:1", std::nullopt);

  EXPECT_THAT(overrides.end_drains(*pool_set, now + 11min), IsEmpty());
}

TEST(OperatorOverrides, ForgetsTheDrainOfABackendThatTheFileHasNoMore) {
  OperatorOverrides overrides;
  const Config config = with_backends({{1, 1}, {2, 1}});
  const auto pool_set = built(config);
  pool_set->pools()[0].state->backends()[0]->state().take_out(OutOfRotation::draining);
  overrides.record_drained(*pool_set, config);

  const Config smaller = with_backends({{2, 1}});
  overrides.record_drained(*built(smaller), smaller);

  EXPECT_THAT(overrides.drained(), IsEmpty());
}

TEST(OperatorOverrides, TheDrainOfABackendThatIsYetToBeFoundIsKeptUntilItIsGoneAgain) {
  const Key first("chat", "127.0.0.1:1");
  Config file = with_backends({{2, 1}});
  file.pools[0].discover.emplace().file = "backends.yaml";
  OperatorOverrides overrides;
  overrides.restore({.drained = {first}}, file);

  overrides.record_drained(*built(file), file);
  EXPECT_THAT(overrides.drained(), ElementsAre(first)) << "it is not found yet";

  const Config found = with_backends({{1, 1}, {2, 1}});
  const auto pool_set = built(found);
  pool_set->pools()[0].state->backends()[0]->state().take_out(OutOfRotation::draining);
  overrides.record_drained(*pool_set, found);
  EXPECT_THAT(overrides.drained(), ElementsAre(first));

  overrides.record_drained(*built(file), file);
  EXPECT_THAT(overrides.drained(), IsEmpty()) << "another server may come at its address";
}

TEST(OperatorOverrides, TheWeightOfABackendThatIsYetToBeFoundIsRestored) {
  OperatorOverrides overrides;
  const Config found = with_backends({{1, 1}, {2, 1}});
  overrides.set_weights(overrides.weights_with("chat", "127.0.0.1:1", 9));
  const SavedState saved = overrides.save(*built(found), found);
  Config file = with_backends({{2, 1}});
  OperatorOverrides fixed;
  fixed.restore(saved, file);
  file.pools[0].discover.emplace().file = "backends.yaml";
  OperatorOverrides discovering;
  discovering.restore(saved, file);

  EXPECT_THAT(fixed.weights(), IsEmpty());
  EXPECT_THAT(discovering.weights(), ElementsAre(Pair(Key("chat", "127.0.0.1:1"), 9)));
}

/// The file says `gpus:8000`.
Config with_a_name() {
  Config config;
  BackendConfig backend;
  backend.address = {"gpus", 8000};
  config.pools.push_back({.name = "chat"});
  config.pools[0].backends.push_back(backend);
  return config;
}

/// That name stands for these servers.
std::shared_ptr<const PoolSet> built_with(const OperatorOverrides& overrides,
                                          std::vector<std::string> hosts,
                                          const PoolSet* predecessor = nullptr) {
  const BuildInputs inputs{.find =
                               [hosts = std::move(hosts)](const Address& address) {
                                 std::vector<Endpoint> endpoints;
                                 for (const std::string& host : hosts)
                                   endpoints.push_back(resolve(host, address.port)->front());
                                 return endpoints;
                               },
                           .weights = overrides.weights(),
                           .drained = overrides.drained(),
                           .ids = overrides.ids()};
  auto pool_set = PoolSet::build(with_a_name(), inputs, predecessor);
  EXPECT_TRUE(pool_set.ok());
  return *pool_set;
}

std::vector<std::string> ids_of(const PoolSet& pool_set) {
  std::vector<std::string> ids;
  for (const BackendPtr& backend : pool_set.pools()[0].state->backends())
    ids.push_back(backend->id());
  return ids;
}

/// What the next process starts with.
OperatorOverrides handed_on(const PoolSet& pool_set) {
  OperatorOverrides before;
  OperatorOverrides after;
  after.restore(before.save(pool_set, with_a_name()), with_a_name());
  return after;
}

TEST(OperatorOverrides, ADrainIsHandedOnWhenTheNameHasLostItsOtherServers) {
  const auto two = built_with({}, {"10.0.0.1", "10.0.0.2"});
  const auto one = built_with({}, {"10.0.0.2"}, two.get());
  ASSERT_THAT(ids_of(*one), ElementsAre("gpus:8000@10.0.0.2"));
  one->pools()[0].state->backends()[0]->state().take_out(OutOfRotation::draining);

  const auto next = built_with(handed_on(*one), {"10.0.0.2"});

  EXPECT_THAT(ids_of(*next), ElementsAre("gpus:8000@10.0.0.2"));
  EXPECT_TRUE(next->pools()[0].backends[0].drained);
}

TEST(OperatorOverrides, ADrainIsHandedOnWhenTheNameHasGainedAServer) {
  const auto one = built_with({}, {"10.0.0.2"});
  one->pools()[0].state->backends()[0]->state().take_out(OutOfRotation::draining);

  const auto next = built_with(handed_on(*one), {"10.0.0.1", "10.0.0.2"});

  EXPECT_THAT(ids_of(*next), ElementsAre("gpus:8000@10.0.0.1", "gpus:8000"));
  EXPECT_FALSE(next->pools()[0].backends[0].drained);
  EXPECT_TRUE(next->pools()[0].backends[1].drained);
}

TEST(OperatorOverrides, SavesTheAddressesOfServersThatTheirIdsMayNotFind) {
  OperatorOverrides overrides;
  const auto addresses_in = [&](const PoolSet& pool_set) {
    return overrides.save(pool_set, with_a_name()).addresses;
  };
  const auto two = built_with({}, {"10.0.0.1", "10.0.0.2"});
  EXPECT_THAT(addresses_in(*two), IsEmpty());

  two->pools()[0].state->backends()[0]->state().take_out(OutOfRotation::draining);
  EXPECT_THAT(addresses_in(*two),
              ElementsAre(Pair(Key("chat", "gpus:8000@10.0.0.1"), "10.0.0.1:8000")))
      << "the name may lose the other one";

  const auto one = built_with({}, {"10.0.0.2"}, two.get());
  EXPECT_THAT(addresses_in(*one),
              ElementsAre(Pair(Key("chat", "gpus:8000@10.0.0.2"), "10.0.0.2:8000")));

  overrides.set_weights(overrides.weights_with("chat", "gpus:8000", 9));
  EXPECT_THAT(addresses_in(*built_with({}, {"10.0.0.2"})),
              ElementsAre(Pair(Key("chat", "gpus:8000"), "10.0.0.2:8000")))
      << "the name may gain others";
}

TEST(OperatorOverrides, NoTwoServersGetTheSameId) {
  const auto first = built_with({}, {"10.0.0.2"});
  first->pools()[0].state->backends()[0]->state().take_out(OutOfRotation::draining);
  const OperatorOverrides overrides = handed_on(*first);
  const auto moved = built_with(overrides, {"10.0.0.7"});
  ASSERT_THAT(ids_of(*moved), ElementsAre("gpus:8000"));

  const auto both = built_with(overrides, {"10.0.0.2", "10.0.0.7"}, moved.get());

  EXPECT_THAT(ids_of(*both), ElementsAre("gpus:8000@10.0.0.2", "gpus:8000"));
}

}  // namespace
}  // namespace evenkeel
