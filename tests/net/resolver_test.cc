#include "evenkeel/net/resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "net/name_server.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using Family = Resolver::Family;

std::vector<std::string> texts(const std::vector<Endpoint>& endpoints) {
  std::vector<std::string> list;
  for (const Endpoint& endpoint : endpoints) list.push_back(endpoint.text());
  return list;
}

class ResolverTest : public testing::Test {
 protected:
  Result<Resolver::Answer> finish(Task<Result<Resolver::Answer>> task) {
    EXPECT_TRUE(loop.run_until([&] { return task.ready(); }, Clock::now() + 20s));
    return task.take();
  }
  Result<Resolver::Answer> lookup(const std::string& host, Family family) {
    return finish(resolver.lookup(host, 80, family));
  }
  Result<Resolver::Answer> lookup(const std::string& host) {
    return finish(resolver.lookup(host, 80));
  }

  Result<Resolver::ServiceAnswer> find_services(const std::string& name) {
    auto task = resolver.find_services(name);
    EXPECT_TRUE(loop.run_until([&] { return task.ready(); }, Clock::now() + 20s));
    return task.take();
  }

  Loop loop;
  NameServer server{loop};
  Resolver resolver{loop, {server.address()}};
};

TEST_F(ResolverTest, FindsTheAddressesOfEachFamilyWithThePort) {
  server.names["pool.test"] = {.v4 = {"192.0.2.1", "192.0.2.2"}, .v6 = {"2001:db8::1"}};

  const auto v4 = lookup("pool.test", Family::v4);
  const auto v6 = lookup("pool.test", Family::v6);

  ASSERT_TRUE(v4);
  EXPECT_EQ(texts(v4->addresses), (std::vector<std::string>{"192.0.2.1:80", "192.0.2.2:80"}));
  ASSERT_TRUE(v6);
  EXPECT_EQ(texts(v6->addresses), std::vector<std::string>{"[2001:db8::1]:80"});
}

TEST_F(ResolverTest, ReportsTheTimeToLive) {
  server.names["pool.test"] = {.v4 = {"192.0.2.1"}, .ttl_seconds = 42};

  const auto answer = lookup("pool.test", Family::v4);

  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->ttl, 42s);
}

TEST_F(ResolverTest, AnswersThatANameDoesNotExistOrHasNoAddress) {
  server.names["empty.test"] = {};

  for (const char* host : {"empty.test", "missing.test"}) {
    const auto answer = lookup(host, Family::v4);
    ASSERT_TRUE(answer) << host;
    EXPECT_TRUE(answer->addresses.empty()) << host;
  }
}

TEST_F(ResolverTest, ReportsAFailingNameServerAsAnError) {
  server.names["broken.test"] = {.v4_mode = NameServer::Mode::fails};

  const auto answer = lookup("broken.test", Family::v4);

  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().fault, Fault::connect_failed);
  EXPECT_TRUE(answer.error().detail.starts_with("cannot resolve 'broken.test': "))
      << answer.error().detail;
}

TEST_F(ResolverTest, ListsBothFamiliesWithIpv4First) {
  server.names["pool.test"] = {.v4 = {"192.0.2.1"}, .v6 = {"2001:db8::1"}};

  const auto answer = lookup("pool.test");

  ASSERT_TRUE(answer);
  EXPECT_EQ(texts(answer->addresses),
            (std::vector<std::string>{"192.0.2.1:80", "[2001:db8::1]:80"}));
}

TEST_F(ResolverTest, UsesOneFamilyWhenTheOtherFails) {
  server.names["half.test"] = {.v6 = {"2001:db8::1"}, .v4_mode = NameServer::Mode::fails};

  const auto answer = lookup("half.test");

  ASSERT_TRUE(answer);
  EXPECT_EQ(texts(answer->addresses), std::vector<std::string>{"[2001:db8::1]:80"});
}

TEST_F(ResolverTest, FailsWhenOneFamilyFailsAndTheOtherIsEmpty) {
  server.names["half.test"] = {.v4_mode = NameServer::Mode::fails};

  EXPECT_FALSE(lookup("half.test"));
}

TEST_F(ResolverTest, AnswersForAddressesWithoutAQuery) {
  const auto v4 = lookup("192.0.2.9", Family::v4);
  const auto none = lookup("192.0.2.9", Family::v6);

  ASSERT_TRUE(v4);
  EXPECT_EQ(texts(v4->addresses), std::vector<std::string>{"192.0.2.9:80"});
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->addresses.empty());
  EXPECT_EQ(server.queries, 0);
}

TEST_F(ResolverTest, AnswersForLocalhostWithoutAQuery) {
  server.names["localhost"] = {.v4 = {"192.0.2.1"}};

  for (const char* host : {"localhost", "LocalHost.", "engine.localhost"}) {
    const auto answer = lookup(host);
    ASSERT_TRUE(answer) << host;
    EXPECT_EQ(texts(answer->addresses), (std::vector<std::string>{"127.0.0.1:80", "[::1]:80"}))
        << host;
  }
  const auto other = lookup("notlocalhost");
  ASSERT_TRUE(other);
  EXPECT_THAT(other->addresses, testing::IsEmpty());
}

TEST_F(ResolverTest, MayBeDestroyedDuringALookup) {
  server.names["silent.test"] = {.v4_mode = NameServer::Mode::silent};
  std::optional<Resolver> short_lived(std::in_place, loop, std::vector{server.address()});
  auto task = short_lived->lookup("silent.test", 80, Family::v4);
  ASSERT_TRUE(loop.run_until([&] { return server.queries > 0; }, Clock::now() + 20s));

  task.drop();
  short_lived.reset();
}

TEST_F(ResolverTest, FindsTheServersOfAService) {
  const std::vector<Resolver::Service> services = {
      {.host = "a.test", .port = 8000, .priority = 10, .weight = 60},
      {.host = "b.test", .port = 8001, .priority = 20, .weight = 0}};
  server.names["_http._tcp.pool.test"] = {.ttl_seconds = 7, .services = services};

  const auto answer = find_services("_http._tcp.pool.test");

  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->services, services);
  EXPECT_EQ(answer->ttl, 7s);
}

TEST_F(ResolverTest, AServiceWithoutServersIsAnAnswer) {
  server.names["_none._tcp.pool.test"] = {.services = {{.host = "", .port = 0}}};  // RFC 2782: "."

  const auto none = find_services("_none._tcp.pool.test");
  const auto unknown = find_services("_unknown._tcp.pool.test");

  ASSERT_TRUE(none);
  EXPECT_TRUE(none->services.empty());
  ASSERT_TRUE(unknown);
  EXPECT_TRUE(unknown->services.empty());
}

TEST_F(ResolverTest, AServiceWhoseNameServersFailIsAnError) {
  server.names["_http._tcp.pool.test"] = {.v4_mode = NameServer::Mode::fails};

  EXPECT_FALSE(find_services("_http._tcp.pool.test"));
}

}  // namespace
}  // namespace evenkeel
