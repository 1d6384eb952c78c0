// Servers that answer wrongly or not at all, clients that leave or are slow.
#include <gtest/gtest.h>

#include "built_pools.h"
#include "proxy/chain.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view get = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
constexpr std::string_view ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
constexpr std::string_view ok_to_client = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

class FailingChain : public Chain {};

// ---- invalid responses -------------------------------------------------------------------------

TEST_F(FailingChain, TurnsBadHeadsIntoBadGateways) {
  const std::string line = "HTTP/1.1 200 OK\r\n";
  const std::string answers[] = {
      line + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
      line + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
      line + "Content-Length: 0x5\r\n\r\nhello",
      line + "A: b\r\n c: d\r\n\r\n",
      line + std::string("A: \0\r\n\r\n", 8),
      line + "A: b\rc: d\r\n\r\n",
      line + "A: b\nc: d\r\n\r\n",
      line + "A: " + std::string(70 * 1024, 'x') + "\r\n\r\n",
      "HTTP/1.1 99 X\r\n\r\n",
      "HTTP/1.1 1000 X\r\n\r\n",
      "HTTP/1.1 2OO OK\r\n\r\n",
      "HTTP/2.0 200 OK\r\n\r\n",
      "hello there\r\n\r\n",
      "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
  };
  auto client = connect();
  std::size_t number = 0;
  for (const auto& answer : answers) {
    client->send(get);
    Peer& backend = server.connection(number++);
    backend.read_head();
    backend.send(answer);
    const std::string got = client->read_message();
    ASSERT_TRUE(got.starts_with("HTTP/1.1 502 Bad Gateway\r\n")) << answer.substr(0, 100) << '\n'
                                                                 << got;
    ASSERT_NE(got.find("x-evenkeel-reason: backend_protocol\r\n"), std::string::npos) << got;
    ASSERT_TRUE(backend.sees_end());
  }
  EXPECT_TRUE(at_rest());
}

TEST_F(FailingChain, EndsEndlessInterimResponses) {
  auto client = connect();
  client->send(get);
  Peer& backend = server.connection(0);
  backend.read_head();
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "HTTP/1.1 103 Early Hints\r\n\r\n";
  backend.send(many);

  EXPECT_NE(client->read_to("x-evenkeel-reason: backend_protocol").find("HTTP/1.1 502 "),
            std::string::npos);
  EXPECT_TRUE(backend.sees_end());
}

TEST_F(FailingChain, NeverEndsATruncatedResponseProperly) {
  const std::string_view answers[] = {
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhell\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhell\r\n0\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhell\r\nbad",
  };
  std::size_t number = 0;
  for (const auto answer : answers) {
    auto client = connect();
    client->send(get);
    Peer& backend = server.connection(number++);
    backend.read_head();
    backend.send(answer);
    client->read_to("hell");
    backend.finish_sending();

    const std::string rest = client->read_to_end();
    EXPECT_TRUE(rest.empty() || rest == "\r\n") << rest;
    EXPECT_TRUE(backend.sees_end());
  }
  EXPECT_TRUE(at_rest());
}

TEST_F(FailingChain, BreaksATruncatedResponseToHttp10) {
  auto client = connect();
  client->send("GET / HTTP/1.0\r\n\r\n");
  Peer& backend = server.connection(0);
  backend.read_head();
  backend.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhell\r\n");
  client->read_to("hell");
  backend.close();

  EXPECT_TRUE(client->sees_reset());
}

TEST_F(FailingChain, TimesOutOnASilentServer) {
  config.pools[0].timeouts.first_byte = 50ms;
  auto client = connect();
  client->send("GET /v2/health HTTP/1.1\r\nHost: a\r\n\r\n");

  const std::string answer = client->read_message();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 504 Gateway Timeout\r\n")) << answer;
  EXPECT_NE(answer.find("x-evenkeel-reason: first_byte_timeout\r\n"), std::string::npos);
  EXPECT_TRUE(server.connection(0).sees_end());
  EXPECT_TRUE(at_rest());
}

TEST_F(FailingChain, LimitsTheSilenceOfOpenRequestsOfEarlierPlans) {
  auto client = connect();
  client->send(get);
  server.connection(0).read_head();
  const auto before = std::static_pointer_cast<Plan>(host.handler);
  config.pools[0].timeouts.idle = 7s;  // so that the links are made anew
  const WorkerContext worker{loop, metrics_registry, 0, recorder, held_bodies};
  const auto next_set = build_pools(config);
  ASSERT_TRUE(next_set);
  auto plan = std::make_shared<Plan>(std::make_shared<const Config>(config), *next_set, worker,
                                     before.get());
  config.pools[0].timeouts.idle = 8s;
  plan =
      std::make_shared<Plan>(std::make_shared<const Config>(config), *next_set, worker, plan.get());

  plan->links().suspect("pool", to_string(server.address()), 50ms);

  const std::string answer = client->read_message();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 504 Gateway Timeout\r\n")) << answer;
}

// ---- clients that leave, or are slow -----------------------------------------------------------

TEST_F(FailingChain, ClosesTheLinkAtOnceWhenTheClientLeavesBeforeTheResponse) {
  for (const bool orderly : {true, false}) {
    auto client = connect();
    client->send(get);
    Peer& backend = server.connection(orderly ? 0 : 1);
    backend.read_head();
    const Instant left = Clock::now();

    orderly ? client->close() : client->reset();

    EXPECT_TRUE(backend.sees_end());
    EXPECT_LT(Clock::now() - left, 50ms);
    EXPECT_TRUE(at_rest());
  }
}

TEST_F(FailingChain, ClosesTheLinkAtOnceWhenTheClientLeavesDuringTheResponse) {
  auto client = connect();
  client->send(get);
  Peer& backend = server.connection(0);
  backend.read_head();
  backend.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ntoken\r\n");
  client->read_to("token");
  const Instant left = Clock::now();

  client->close();

  EXPECT_TRUE(backend.sees_end());
  EXPECT_LT(Clock::now() - left, 50ms);
  EXPECT_TRUE(at_rest());
}

TEST_F(FailingChain, ClosesTheLinkWhenTheClientLeavesDuringItsRequest) {
  auto client = connect();
  client->send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf.");
  Peer& backend = server.connection(0);
  backend.read_to("half.");

  client->close();

  EXPECT_EQ(backend.read_to_end(), "");
  EXPECT_TRUE(at_rest());
}

TEST_F(FailingChain, NeverCompletesARequestWhoseBodyIsBroken) {
  auto client = connect();
  client->send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
  Peer& backend = server.connection(0);
  backend.read_to("hello\r\n");

  client->send("zzz\r\n");

  EXPECT_TRUE(client->read_to_end().starts_with("HTTP/1.1 400 "));
  EXPECT_EQ(backend.read_to_end(), "");
  EXPECT_TRUE(at_rest());
}

TEST_F(FailingChain, PausesTheServerForASlowReader) {
  auto client = connect(16 * 1024);
  client->send(get);
  Peer& backend = server.connection(0);
  backend.read_head();
  backend.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  std::string all;
  for (int i = 0; i < 2000; ++i)
    all += "4000\r\n" + std::string(16'384, static_cast<char>('a' + i % 26)) + "\r\n";
  all += "0\r\n\r\n";

  std::string_view left = all;
  std::size_t before = left.size() + 1;
  while (left.size() < before) {  // until the kernel takes no more
    before = left.size();
    backend.send_some(left);
    drain_loop(loop, 20);
  }
  // The kernel's buffers on both sides, and nothing that grows with the response.
  EXPECT_GT(left.size(), all.size() / 2);

  client->read_head();
  std::string got;
  while (!got.ends_with("\r\n0\r\n\r\n")) {
    backend.send_some(left);
    drain_loop(loop, 1);
    got += client->seen();
    client->seen().clear();
  }
  std::string payload;
  for (std::string_view rest = got; !rest.starts_with("0\r\n");) {
    const std::size_t size = std::stoul(std::string(rest.substr(0, 8)), nullptr, 16);
    rest.remove_prefix(rest.find("\r\n") + 2);
    payload += rest.substr(0, size);
    rest.remove_prefix(size + 2);
  }
  ASSERT_EQ(payload.size(), 2000u * 16'384u);
  for (std::size_t i = 0; i < payload.size(); i += 4'096) {
    ASSERT_EQ(payload[i], static_cast<char>('a' + i / 16'384 % 26));
  }
}

TEST_F(FailingChain, BlamesNoServerThatTiresOfASlowReader) {
  for (const bool pauses : {false, true}) {
    auto client = connect(16 * 1024);
    client->send(get);
    Peer& backend = server.connection(pauses ? 1 : 0);
    backend.read_head();
    backend.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
    client->read_head();
    const SharedBackend& shared = pool_set->pools()[0].state->backends()[0]->shared();
    const std::uint64_t before = shared.stats.errors_total();

    const std::string all(20'000'000, 'x');
    std::string_view left = pauses ? all : std::string_view("x");
    const Instant until = Clock::now() + 300ms;
    const auto send_more = [&] {
      backend.send_some(left);
      return Clock::now() > until;
    };
    eventually(loop, send_more, 300ms);
    EXPECT_EQ(left.empty(), !pauses);
    backend.close();
    client->read_to_end();

    ASSERT_TRUE(at_rest());
    EXPECT_EQ(shared.stats.errors_total() - before, pauses ? 0u : 1u);
  }
}

TEST_F(FailingChain, PausesTheClientForASlowServer) {
  auto client = connect();
  std::string body(20'000'000, 'x');
  client->send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\n");

  std::string_view left = body;
  std::size_t before = left.size() + 1;
  while (left.size() < before) {
    before = left.size();
    client->send_some(left);
    drain_loop(loop, 20);
  }
  EXPECT_GT(left.size(), 1'000'000u);

  std::size_t got = 0;
  Peer& backend = server.connection(0);
  backend.read_head();
  while (got < body.size()) {
    client->send_some(left);
    drain_loop(loop, 1);
    got += backend.seen().size();
    backend.seen().clear();
  }
  backend.send(ok);
  EXPECT_EQ(plain(client->read_message()), ok_to_client);
}

}  // namespace
}  // namespace evenkeel
