// Requests that wait in a pool's queue while the configuration changes.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "proxy/chain.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";

class QueueReload : public Chain {
 protected:
  QueueReload() : other(loop) { config.pools[0].limits.max_in_flight = 1; }
  ~QueueReload() override { loop.drop_spawned(); }

  /// What a worker does with a new configuration.
  void load() {
    build_pools();
    publish();
  }
  void build_pools() {
    pool_set = *PoolSet::build(config, now(), pool_set.get());
    for (const PoolSet::PoolEntry& each : pool_set->pools()) each.state->activate();
  }
  void publish() {
    const auto before = plan;
    plan = std::make_shared<Plan>(
        std::make_shared<const Config>(config), pool_set,
        WorkerContext{loop, metrics_registry, 0, recorder, held_bodies, nullptr, nullptr, &plan},
        plan.get());
    host.handler = plan;
    if (before != nullptr) former.push_back(before);
    for (const auto& weak : former) {
      if (const auto each = weak.lock()) each->hand_queues_to(plan);
    }
  }
  static BuildInputs now() {
    return {.find = [](const Address& address) { return *resolve(address.host, address.port); },
            .weights = {},
            .drained = {},
            .ids = {}};
  }
  void use(std::vector<Address> addresses) {
    config.pools[0].backends.clear();
    for (Address& each : addresses)
      config.pools[0].backends.push_back({.address = std::move(each)});
  }
  std::unique_ptr<Peer> send(std::string_view path, std::string_view body = {}) {
    auto client = connect();
    client->send("POST " + std::string(path) + " HTTP/1.1\r\nHost: a\r\nContent-Length: " +
                 std::to_string(body.size()) + "\r\n\r\n" + std::string(body));
    return client;
  }
  /// The first one of the newest version.
  const Backend& backend() const { return *pool_set->pools()[0].state->backends()[0]; }
  QueueStats queue() const { return pool_set->pools()[0].state->queue(); }
  std::int64_t waiting() const { return metrics_registry.waiting(1); }
  void await_waiting(std::int64_t count) {
    EXPECT_TRUE(eventually(loop, [&] { return waiting() == count; })) << waiting();
  }
  /// One request that takes the only slot of `server`, and one that waits for it.
  void fill_and_wait() {
    busy = send("/busy");
    server.connection(0).read_message();
    queued = send("/queued", "body");
    await_waiting(1);
  }

  ScriptedServer other;
  std::shared_ptr<Plan> plan;
  std::vector<std::weak_ptr<Plan>> former;
  std::unique_ptr<Peer> busy;
  std::unique_ptr<Peer> queued;
};

TEST_F(QueueReload, ARequestThatWaitsGoesToABackendThatReplacesItsOwn) {
  load();
  fill_and_wait();
  use({other.address()});
  load();

  const std::string request = other.connection(0).read_message();
  EXPECT_TRUE(request.starts_with("POST /queued ")) << request;
  EXPECT_TRUE(request.ends_with("body")) << request;
  other.connection(0).send(answer);
  EXPECT_TRUE(queued->read_message().ends_with("fine"));
  server.connection(0).send(answer);
  EXPECT_TRUE(busy->read_message().ends_with("fine"));
  EXPECT_EQ(server.connections(), 1u);
  EXPECT_EQ(waiting(), 0);
  EXPECT_TRUE(at_rest());
}

TEST_F(QueueReload, ARequestThatWaitsGoesToABackendThatIsAdded) {
  load();
  fill_and_wait();
  use({server.address(), other.address()});
  load();

  other.connection(0).read_message();
  other.connection(0).send(answer);
  EXPECT_TRUE(queued->read_message().ends_with("fine"));
}

TEST_F(QueueReload, AClientThatLeavesAfterAMoveLeavesTheQueue) {
  load();
  fill_and_wait();
  use({other.address()});
  build_pools();
  ASSERT_TRUE(backend().try_acquire(loop.now()));
  publish();
  EXPECT_TRUE(eventually(loop, [&] { return queue().waiting == 1 && former.size() == 1; }));
  drain_loop(loop);

  queued.reset();

  await_waiting(0);
  EXPECT_EQ(queue().waiting, 0u);
  backend().release();
}

TEST_F(QueueReload, AnotherReloadLaterIsAsGood) {
  load();
  fill_and_wait();
  config.pools[0].timeouts.idle = 7s;
  load();
  await_waiting(1);
  EXPECT_EQ(other.connections(), 0u);
  use({other.address()});
  load();

  other.connection(0).read_message();
  other.connection(0).send(answer);
  EXPECT_TRUE(queued->read_message().ends_with("fine"));
}

TEST_F(QueueReload, KeepsThePlanThatPlacedItAndNoOther) {
  load();
  fill_and_wait();
  const std::weak_ptr<Plan> first = plan;
  use({other.address()});
  load();
  other.connection(0).read_message();
  other.connection(0).send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
  queued->read_to("half");
  const std::weak_ptr<Plan> second = plan;
  use({server.address()});
  load();
  server.connection(0).send(answer);
  busy->read_message();
  EXPECT_FALSE(first.expired());
  EXPECT_FALSE(second.expired());

  other.connection(0).send("5\r\nwhole\r\n0\r\n\r\n");

  queued->read_to("0\r\n\r\n");
  EXPECT_TRUE(eventually(loop, [&] { return first.expired() && second.expired(); }));
}

TEST_F(QueueReload, KeepsEachPlanWhoseFiltersItHasPassed) {
  config.pools[0].inspect = true;
  load();
  busy = send("/busy");
  server.connection(0).read_message();
  constexpr std::string_view body = R"({"model": "tiny"})";
  queued = connect();
  queued->send(
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
      "Content-Length: 17\r\n\r\n");
  EXPECT_TRUE(eventually(loop, [&] { return metrics_registry.in_flight(1) == 2; }));
  load();  // the second plan places it when its body has come
  const std::weak_ptr<Plan> second = plan;
  queued->send(body);
  await_waiting(1);
  use({other.address()});
  load();

  const std::string request = other.connection(0).read_message();
  EXPECT_TRUE(request.ends_with(body)) << request;
  EXPECT_FALSE(second.expired());
  other.connection(0).send(answer);
  EXPECT_TRUE(queued->read_message().ends_with("fine"));
  EXPECT_TRUE(eventually(loop, [&] { return second.expired(); }));
}

TEST_F(QueueReload, StaysWhileNoBackendOfTheNewFileServes) {
  load();
  fill_and_wait();
  use({other.address()});
  build_pools();
  backend().state().take_out(OutOfRotation::starting);
  publish();
  drain_loop(loop);
  EXPECT_EQ(waiting(), 1);

  backend().put_back(OutOfRotation::starting);

  other.connection(0).read_message();
  other.connection(0).send(answer);
  EXPECT_TRUE(queued->read_message().ends_with("fine"));
}

TEST_F(QueueReload, StaysWhereTheNewFileHasNoSuchPool) {
  load();
  fill_and_wait();
  use({other.address()});
  config.pools[0].name = "renamed";
  config.routes[0].targets[0].pool = "renamed";
  load();
  drain_loop(loop);
  EXPECT_EQ(waiting(), 1);

  server.connection(0).send(answer);

  EXPECT_TRUE(busy->read_message().ends_with("fine"));
  server.connection(0).read_message();
  server.connection(0).send(answer);
  EXPECT_TRUE(queued->read_message().ends_with("fine"));
  EXPECT_EQ(other.connections(), 0u);
}

TEST_F(QueueReload, IsSentByTheVersionThatItHasMovedToIfNoLaterOneHasSuchAPool) {
  load();
  fill_and_wait();
  use({other.address()});
  build_pools();
  const BackendPtr second = pool_set->pools()[0].state->backends()[0];
  second->state().take_out(OutOfRotation::ejected);
  publish();
  config.pools[0].name = "renamed";
  config.routes[0].targets[0].pool = "renamed";
  load();
  drain_loop(loop);
  EXPECT_EQ(waiting(), 1);

  second->put_back(OutOfRotation::ejected);

  EXPECT_TRUE(other.connection(0).read_message().starts_with("POST /queued "));
  other.connection(0).send(answer);
  EXPECT_TRUE(queued->read_message().ends_with("fine"));
}

TEST_F(QueueReload, WaitsNoLongerThanItsTimeoutOverAllVersions) {
  config.pools[0].limits.queue.timeout = 400ms;
  load();
  const Instant began = Clock::now();
  fill_and_wait();
  loop.run_until([] { return false; }, began + 250ms);
  use({other.address()});
  build_pools();
  ASSERT_TRUE(backend().try_acquire(loop.now()));
  publish();

  const std::string response = queued->read_message();

  EXPECT_TRUE(response.starts_with("HTTP/1.1 503 ")) << response;
  EXPECT_LT(Clock::now() - began, 600ms);
  backend().release();
}

}  // namespace
}  // namespace evenkeel
