// Requests whose bodies arrive while the configuration changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "built_pools.h"
#include "proxy/chain.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view head =
    "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    "X-Api-Key: key\r\nContent-Length: 28\r\n\r\n";
constexpr std::string_view begin = R"({"model": "tiny", )";
constexpr std::string_view end = R"("n": 1234})";
static_assert(begin.size() + end.size() == 28);
constexpr std::string_view answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";

class NewestPlan : public Chain {
 protected:
  NewestPlan() : other(loop) { config.pools[0].inspect = true; }
  ~NewestPlan() override { loop.drop_spawned(); }

  /// The plan of requests that begin now, from `config`.
  void load() {
    pool_set = *build_pools(config);
    plan = std::make_shared<Plan>(
        std::make_shared<const Config>(config), pool_set,
        WorkerContext{loop, metrics_registry, 0, recorder, held_bodies, nullptr, nullptr, &plan},
        plan.get());
    host.handler = plan;
  }
  /// A client that has sent all but the end of its body. `pool`: the number of its pool; 0: none is
  /// known yet.
  std::unique_ptr<Peer> begin_request(std::uint32_t pool = 1) {
    auto client = connect();
    client->send(std::string(head).append(begin));
    EXPECT_TRUE(eventually(loop, [&] { return metrics_registry.in_flight(pool) == 1; }));
    drain_loop(loop);
    return client;
  }

  TenantTotals totals_of(std::string_view tenant) {
    const LabelIndex::View names = metrics_registry.label_index().view();
    const auto name = std::find(names.tenants.begin(), names.tenants.end(), tenant);
    if (name == names.tenants.end()) return {};
    return metrics_registry.tenant_totals(static_cast<std::uint32_t>(name - names.tenants.begin()));
  }

  ScriptedServer other;
  std::shared_ptr<Plan> plan;
};

TEST_F(NewestPlan, ARequestThatAwaitsItsBodyGoesToNoBackendThatHasLeft) {
  // Of the route of the first file; the second one has none.
  config.routes[0].retry = RetryRules{};
  load();
  auto client = begin_request();
  config.pools[0].backends[0].address = other.address();
  config.routes[0].retry.reset();
  load();

  client->send(end);

  const std::string request = other.connection(0).read_message();
  EXPECT_TRUE(request.ends_with(std::string(begin).append(end))) << request;
  other.connection(0).send(answer);
  EXPECT_TRUE(client->read_message().ends_with("fine"));
  EXPECT_EQ(server.connections(), 0u);
  EXPECT_TRUE(at_rest());
}

TEST_F(NewestPlan, KeepsTheLaterPlanUntilTheResponseHasEnded) {
  load();
  auto client = begin_request();
  const std::weak_ptr<Plan> first = plan;
  config.pools[0].backends[0].address = other.address();
  load();
  const std::weak_ptr<Plan> second = plan;
  client->send(end);
  other.connection(0).read_message();
  other.connection(0).send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
  client->read_to("half");
  config.pools[0].backends[0].address = server.address();
  load();
  EXPECT_FALSE(first.expired());
  EXPECT_FALSE(second.expired());

  other.connection(0).send("5\r\nwhole\r\n0\r\n\r\n");

  client->read_to("0\r\n\r\n");
  EXPECT_TRUE(eventually(loop, [&] { return first.expired() && second.expired(); }));
}

TEST_F(NewestPlan, AppliesTheRoutesOfNow) {
  config.pools.push_back(config.pools[0]);
  config.pools[1].name = "other";
  config.pools[1].backends[0].address = other.address();
  config.routes.push_back(
      {.name = "tiny", .match = {.model = {"tiny"}}, .targets = {{.pool = "other"}}});
  std::swap(config.routes[0], config.routes[1]);
  load();
  auto client = begin_request(0);
  config.routes[0].match.model = {"huge"};
  load();

  client->send(end);

  server.connection(0).read_message();
  server.connection(0).send(answer);
  EXPECT_TRUE(client->read_message().ends_with("fine"));
  EXPECT_EQ(other.connections(), 0u);
}

TEST_F(NewestPlan, RefusesARequestForWhichThereIsNoRouteAnyMore) {
  load();
  auto client = begin_request();
  config.routes[0].match.path = "/elsewhere";
  load();

  client->send(end);

  EXPECT_TRUE(client->read_message().starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(at_rest());
}

TEST_F(NewestPlan, ReplacesTheNameOfTheModelAsTheFileOfNowSays) {
  load();
  auto client = begin_request();
  config.pools[0].model = "large";
  load();

  client->send(end);

  const std::string request = server.connection(0).read_message();
  EXPECT_NE(request.find(R"({"model": "large", )"), std::string::npos) << request;
  server.connection(0).send(answer);
  EXPECT_TRUE(client->read_message().ends_with("fine"));
}

TEST_F(NewestPlan, FindsTheTenantAnew) {
  const std::string key_hash = "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683";
  config.tenants = {{.name = "acme", .keys_sha256 = {key_hash}}};
  load();
  auto client = begin_request();
  EXPECT_EQ(totals_of("acme").in_flight, 1);
  config.tenants = {{.name = "acme"}, {.name = "beta", .keys_sha256 = {key_hash}}};
  load();

  client->send(end);

  server.connection(0).read_message();
  EXPECT_EQ(totals_of("acme").in_flight, 0);
  EXPECT_EQ(totals_of("beta").in_flight, 1);
  server.connection(0).send(answer);
  EXPECT_TRUE(client->read_message().ends_with("fine"));
  EXPECT_TRUE(eventually(loop, [&] { return totals_of("beta").requests == 1; }));
  EXPECT_EQ(totals_of("beta").in_flight, 0);
  EXPECT_EQ(totals_of("acme").requests, 0u);
}

TEST_F(NewestPlan, LeavesRequestsThatAreNotReadToTheirPlan) {
  load();
  const std::shared_ptr<Plan> first = plan;
  load();
  host.handler = first;  // as a connection has it that got its request before the reload
  auto client = connect();

  client->send("GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n");

  server.connection(0).read_message();
  server.connection(0).send(answer);
  EXPECT_TRUE(client->read_message().ends_with("fine"));
}

TEST_F(NewestPlan, LeavesARequestThatWaitsToItsOnlyPlan) {
  load();
  auto client = begin_request();

  client->send(end);

  server.connection(0).read_message();
  server.connection(0).send(answer);
  EXPECT_TRUE(client->read_message().ends_with("fine"));
  EXPECT_EQ(plan.use_count(), 2);  // with the one of `host`
}

}  // namespace
}  // namespace evenkeel
