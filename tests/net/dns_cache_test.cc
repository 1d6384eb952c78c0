#include "evenkeel/net/dns_cache.h"

#include <gtest/gtest.h>

#include "net/name_server.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

class DnsCacheTest : public testing::Test {
 protected:
  /// Follows `hosts` and waits for their first answers.
  void resolve_all(const std::set<std::string>& hosts) {
    cache.set_hosts(hosts);
    auto resolved = cache.resolved(Clock::now() + 20s);
    ASSERT_TRUE(loop.run_until([&] { return resolved.ready(); }, Clock::now() + 20s));
  }
  bool eventually(const std::function<bool()>& holds) {
    return loop.run_until(holds, Clock::now() + 20s);
  }
  std::vector<std::string> endpoints(const std::string& host) const {
    std::vector<std::string> list;
    for (const Endpoint& endpoint : cache.find({.host = host, .port = 80})) {
      list.push_back(endpoint.text());
    }
    return list;
  }

  using List = std::vector<std::string>;

  Loop loop;
  NameServer server{loop};
  int changes = 0;
  bool passes = false;  // the servers of every host pass their checks
  DnsCache cache{loop,
                 {.servers = {server.address()}, .min_ttl = 10ms, .max_ttl = 20ms},
                 1,
                 [this] { ++changes; },
                 [this](const std::string&) { return passes; },
                 0ms};
};

TEST_F(DnsCacheTest, FindsTheAddressesOfItsHostsInOrder) {
  server.names["pool.test"] = {.v4 = {"192.0.2.2", "192.0.2.1"}, .v6 = {"2001:db8::1"}};

  resolve_all({"pool.test"});

  EXPECT_EQ(endpoints("pool.test"), (List{"192.0.2.1:80", "192.0.2.2:80", "[2001:db8::1]:80"}));
  EXPECT_EQ(endpoints("other.test"), List{});
  EXPECT_EQ(changes, 0);
}

TEST_F(DnsCacheTest, FindsAddressesWithoutALookup) {
  EXPECT_EQ(endpoints("192.0.2.9"), List{"192.0.2.9:80"});
  EXPECT_EQ(server.queries, 0);
}

TEST_F(DnsCacheTest, ReportsThatAHostMoved) {
  server.names["pool.test"] = {.v4 = {"192.0.2.1"}};
  resolve_all({"pool.test"});

  server.names["pool.test"] = {.v4 = {"192.0.2.7"}};

  EXPECT_TRUE(eventually([&] { return changes > 0; }));
  EXPECT_EQ(endpoints("pool.test"), List{"192.0.2.7:80"});
}

TEST_F(DnsCacheTest, ReportsNothingWhileAddressesOnlyChangeTheirOrder) {
  server.names["pool.test"] = {.v4 = {"192.0.2.1", "192.0.2.2"}};
  resolve_all({"pool.test"});
  const int queries = server.queries;

  server.names["pool.test"] = {.v4 = {"192.0.2.2", "192.0.2.1"}};

  EXPECT_TRUE(eventually([&] { return server.queries >= queries + 4; }));
  EXPECT_EQ(changes, 0);
}

TEST_F(DnsCacheTest, KeepsTheAddressesWhileTheNameServerFails) {
  server.names["pool.test"] = {.v4 = {"192.0.2.1"}};
  resolve_all({"pool.test"});
  const int queries = server.queries;

  server.names["pool.test"] = {.v4_mode = NameServer::Mode::fails};

  EXPECT_TRUE(eventually([&] { return server.queries >= queries + 6; }));
  EXPECT_EQ(endpoints("pool.test"), List{"192.0.2.1:80"});
  EXPECT_EQ(changes, 0);
}

TEST_F(DnsCacheTest, AsksOtherServersAtOnceAndKeepsTheAddressesMeanwhile) {
  NameServer other(loop);
  server.names["pool.test"] = {.v4 = {"192.0.2.1"}};
  other.names["pool.test"] = {.v4 = {"192.0.2.7"}};
  cache.set_ttl_limits(1h, 1h);
  resolve_all({"pool.test"});

  cache.set_servers({other.address()});

  EXPECT_EQ(endpoints("pool.test"), List{"192.0.2.1:80"});
  const int queries = server.queries;
  EXPECT_TRUE(eventually([&] { return changes > 0; }));
  EXPECT_EQ(endpoints("pool.test"), List{"192.0.2.7:80"});
  EXPECT_EQ(server.queries, queries);
}

TEST_F(DnsCacheTest, HoldsTheAddressesOfADeniedNameWhileItsServersPassTheirChecks) {
  server.names["pool.test"] = {.v4 = {"192.0.2.1"}};
  resolve_all({"pool.test"});
  passes = true;
  const int queries = server.queries;

  server.names["pool.test"] = {};

  EXPECT_TRUE(eventually([&] { return server.queries >= queries + 12; }));
  EXPECT_EQ(endpoints("pool.test"), List{"192.0.2.1:80"});
  EXPECT_EQ(changes, 0);

  passes = false;
  EXPECT_TRUE(eventually([&] { return changes > 0; }));
  EXPECT_EQ(endpoints("pool.test"), List{});
}

TEST_F(DnsCacheTest, HoldsTheAddressesOfADeniedNameForAWhileInAnyCase) {
  DnsCache patient{loop,    {.servers = {server.address()}, .min_ttl = 10ms, .max_ttl = 20ms},
                   1,       [this] { ++changes; },
                   nullptr, 1h};
  server.names["pool.test"] = {.v4 = {"192.0.2.1"}};
  patient.set_hosts({"pool.test"});
  auto resolved = patient.resolved(Clock::now() + 20s);
  ASSERT_TRUE(eventually([&] { return resolved.ready(); }));
  const int queries = server.queries;

  server.names["pool.test"] = {};

  EXPECT_TRUE(eventually([&] { return server.queries >= queries + 12; }));
  EXPECT_EQ(patient.find({.host = "pool.test", .port = 80}).size(), 1u);
  EXPECT_EQ(changes, 0);
}

TEST_F(DnsCacheTest, DropsTheAddressesOfOneFamilyAfterThreeEmptyAnswers) {
  server.names["pool.test"] = {.v4 = {"192.0.2.1"}, .v6 = {"2001:db8::1"}};
  resolve_all({"pool.test"});
  passes = true;

  server.names["pool.test"] = {.v4 = {"192.0.2.1"}};

  EXPECT_TRUE(eventually([&] { return changes > 0; }));
  EXPECT_EQ(endpoints("pool.test"), List{"192.0.2.1:80"});
}

TEST_F(DnsCacheTest, DropsTheAddressesOfADeniedNameWhoseChecksFail) {
  server.names["pool.test"] = {.v4 = {"192.0.2.1"}, .v6_mode = NameServer::Mode::silent};
  resolve_all({"pool.test"});

  server.names["pool.test"] = {.v6_mode = NameServer::Mode::silent};

  EXPECT_TRUE(eventually([&] { return changes > 0; }));
  EXPECT_EQ(endpoints("pool.test"), List{});
}

TEST_F(DnsCacheTest, DoesNotWaitLongForAFamilyThatIsNotAnswered) {
  server.names["pool.test"] = {.v4 = {"192.0.2.1"}, .v6_mode = NameServer::Mode::silent};
  const Instant before = Clock::now();

  resolve_all({"pool.test"});

  EXPECT_LT(Clock::now() - before, 2s);  // one query alone times out after more
  EXPECT_EQ(endpoints("pool.test"), List{"192.0.2.1:80"});
}

TEST_F(DnsCacheTest, FindsANameAmongThousandsThatAreNotAnswered) {
  std::set<std::string> hosts{"pool.test"};
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "other" + std::to_string(i) + ".test";
    server.names[name] = {.v4_mode = NameServer::Mode::silent, .v6_mode = NameServer::Mode::silent};
    hosts.insert(name);
  }
  server.names["pool.test"] = {.v4 = {"192.0.2.1"}};

  cache.set_hosts(hosts);

  EXPECT_TRUE(eventually([&] { return !endpoints("pool.test").empty(); }));
  EXPECT_EQ(server.queries, 2 * 1001) << "none was lost, and none sent again";
}

TEST_F(DnsCacheTest, GivesUpAtTheDeadline) {
  server.names["pool.test"] = {.v4_mode = NameServer::Mode::silent,
                               .v6_mode = NameServer::Mode::silent};
  cache.set_hosts({"pool.test"});

  auto resolved = cache.resolved(Clock::now() + 50ms);

  EXPECT_TRUE(eventually([&] { return resolved.ready(); }));
  EXPECT_EQ(endpoints("pool.test"), List{});
}

TEST_F(DnsCacheTest, ForgetsHostsThatAreNoLongerNeeded) {
  server.names["pool.test"] = {.v4 = {"192.0.2.1"}};
  resolve_all({"pool.test"});

  cache.set_hosts({});

  EXPECT_EQ(endpoints("pool.test"), List{});
}

}  // namespace
}  // namespace evenkeel
