#include "proxy/chain.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view get = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
constexpr std::string_view ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
constexpr std::string_view ok_to_client = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

// ---- requests and responses --------------------------------------------------------------------

TEST_F(Chain, ForwardsARequestAndItsResponse) {
  auto client = connect();
  client->send(
      "POST /v1/x?y=%2F HTTP/1.1\r\nHost: api\r\nX-Custom: 0.30000000000000004\r\nContent-Length: "
      "4\r\n\r\nbody");

  Peer& backend = server.connection(0);
  EXPECT_EQ(plain(backend.read_head()),
            "POST /v1/x?y=%2F HTTP/1.1\r\nhost: api\r\nX-Custom: "
            "0.30000000000000004\r\ncontent-length: 4\r\n\r\n");
  EXPECT_EQ(backend.read_bytes(4), "body");
  EXPECT_EQ(in_flight(), 1u);
  backend.send("HTTP/1.1 200 Fine\r\nServer: uvicorn\r\nX-Own: 1\r\nContent-Length: 2\r\n\r\nok");

  EXPECT_EQ(plain(client->read_message()),
            "HTTP/1.1 200 Fine\r\nServer: uvicorn\r\nX-Own: 1\r\ncontent-length: 2\r\n\r\nok");
  EXPECT_TRUE(at_rest());
}

TEST_F(Chain, SetsForwardingHeaders) {
  auto client = connect();
  client->send(
      "GET / HTTP/1.1\r\nHost: api\r\nX-Forwarded-For: 10.0.0.1\r\nX-Request-Id: "
      "abc\r\nX-Evenkeel-Trick: 1\r\n\r\n");

  EXPECT_EQ(server.connection(0).read_head(),
            "GET / HTTP/1.1\r\nhost: api\r\nx-request-id: abc\r\nx-forwarded-for: 192.0.2.7\r\n"
            "x-forwarded-proto: http\r\nx-forwarded-host: api\r\nvia: 1.1 evenkeel\r\n\r\n");
  server.connection(0).send(ok);
  EXPECT_EQ(client->read_message(),
            "HTTP/1.1 200 OK\r\nx-request-id: abc\r\ncontent-length: 2\r\n\r\nok");
}

TEST_F(Chain, SendsOneRequestIdEvenIfTheServerEchoesIt) {
  auto client = connect();
  client->send("GET / HTTP/1.1\r\nHost: api\r\nX-Request-Id: abc\r\n\r\n");
  server.connection(0).read_head();
  server.connection(0).send("HTTP/1.1 200 OK\r\nX-Request-Id: other\r\nContent-Length: 0\r\n\r\n");

  EXPECT_EQ(client->read_message(),
            "HTTP/1.1 200 OK\r\nx-request-id: abc\r\ncontent-length: 0\r\n\r\n");
}

TEST_F(Chain, ReusesALinkForTheNextRequest) {
  auto client = connect();
  for (int i = 0; i < 20; ++i) {
    client->send(get);
    server.connection(0).read_head();
    server.connection(0).send(ok);
    EXPECT_EQ(plain(client->read_message()), ok_to_client);
  }
  EXPECT_EQ(server.connections(), 1u);
}

TEST_F(Chain, AnswersAThousandPipelinedRequestsInOrderOneAtATime) {
  auto client = connect();
  std::string requests;
  for (int i = 0; i < 1000; ++i)
    requests += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: a\r\n\r\n";
  client->send(requests);

  for (int i = 0; i < 1000; ++i) {
    const std::string head = server.connection(0).read_head();
    ASSERT_TRUE(head.starts_with("GET /" + std::to_string(i) + " ")) << head;
    ASSERT_EQ(server.connection(0).seen(), "");
    ASSERT_EQ(in_flight(), 1u);
    const std::string body = std::to_string(i);
    server.connection(0).send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) +
                              "\r\n\r\n" + body);
    ASSERT_TRUE(client->read_message().ends_with("\r\n\r\n" + body));
  }
  EXPECT_TRUE(at_rest());
}

TEST_F(Chain, PassesTrailersBothWays) {
  auto client = connect();
  client->send(
      "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2\r\nhi\r\n0\r\nx-sum: 1\r\nContent-Length: 9\r\n\r\n");
  Peer& backend = server.connection(0);
  EXPECT_NE(backend.read_head().find("connection: te\r\nte: trailers\r\n"), std::string::npos);
  EXPECT_EQ(backend.read_to("\r\n\r\n"), "2\r\nhi\r\n0\r\nx-sum: 1\r\n\r\n");

  backend.send(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nho\r\n0\r\ngrpc-status: "
      "0\r\nSet-Cookie: a\r\n\r\n");

  client->read_head();
  EXPECT_EQ(client->read_to("\r\n\r\n"), "2\r\nho\r\n0\r\ngrpc-status: 0\r\n\r\n");
}

TEST_F(Chain, StreamsBothWaysConcurrentlyWithoutDelay) {
  auto client = connect();
  client->send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  Peer& backend = server.connection(0);
  backend.read_head();
  backend.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  client->read_head();

  for (int i = 0; i < 20; ++i) {
    client->send("4\r\nping\r\n");
    EXPECT_EQ(backend.read_to("ping\r\n"), "4\r\nping\r\n");
    const Instant sent = Clock::now();
    backend.send("4\r\npong\r\n");
    EXPECT_EQ(client->read_to("pong\r\n"), "4\r\npong\r\n");
    EXPECT_LT(Clock::now() - sent, 50ms);
  }
  client->send("0\r\n\r\n");
  backend.read_to("0\r\n\r\n");
  backend.send("0\r\n\r\n");
  EXPECT_EQ(client->read_to("0\r\n\r\n"), "0\r\n\r\n");
  client->send(get);
  backend.read_head();
}

TEST_F(Chain, ServesHttp10ClientsFromAChunkedResponse) {
  auto client = connect();
  client->send("GET / HTTP/1.0\r\n\r\n");
  const std::string sent = "host: " + to_string(server.address()) + "\r\n";
  EXPECT_TRUE(plain(server.connection(0).read_head()).starts_with("GET / HTTP/1.1\r\n" + sent));
  server.connection(0).send(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx: 1\r\n\r\n");

  EXPECT_EQ(plain(client->read_to_end()), "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhi");
}

TEST_F(Chain, ForwardsHeadAndBodilessStatuses) {
  auto client = connect();
  const auto answer = [&](std::string_view method, std::string_view response) {
    client->send(std::string(method) + " / HTTP/1.1\r\nHost: a\r\n\r\n");
    server.connection(0).read_head();
    server.connection(0).send(response);
    return plain(client->read_head());
  };
  EXPECT_EQ(answer("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n"),
            "HTTP/1.1 200 OK\r\ncontent-length: 300\r\n\r\n");
  EXPECT_EQ(answer("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
            "HTTP/1.1 200 OK\r\n\r\n");
  EXPECT_EQ(answer("GET", "HTTP/1.1 204 No Content\r\n\r\n"), "HTTP/1.1 204 No Content\r\n\r\n");
  EXPECT_EQ(answer("GET", "HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 300\r\n\r\n"),
            "HTTP/1.1 304 Not Modified\r\nETag: x\r\ncontent-length: 300\r\n\r\n");
  EXPECT_EQ(server.connections(), 1u);
}

TEST_F(Chain, HoldsTheBodyBackUntilTheServerExpectsIt) {
  auto client = connect();
  client->send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client->read_head(), "HTTP/1.1 100 Continue\r\n\r\n");
  client->send("body");
  EXPECT_EQ(plain(server.connection(0).read_to("body")),
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbody");
  server.connection(0).send("HTTP/1.1 100 Continue\r\n\r\n" + std::string(ok));
  EXPECT_EQ(plain(client->read_message()), ok_to_client);
}

// ---- early responses ---------------------------------------------------------------------------

TEST_F(Chain, NeverReusesALinkAfterAnEarlyResponse) {
  auto client = connect();
  client->send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf.");
  server.connection(0).read_to("half.");
  server.connection(0).send("HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno");
  EXPECT_TRUE(client->read_message().ends_with("no"));
  EXPECT_TRUE(server.connection(0).sees_end());

  client->send("other" + std::string(get));

  EXPECT_TRUE(plain(server.connection(1).read_head()).starts_with("GET /x"));
  EXPECT_EQ(server.connection(0).seen(), "");
}

TEST_F(Chain, NeverForwardsAnUnsolicitedResponse) {
  auto client = connect();
  client->send(get);
  server.connection(0).read_head();
  server.connection(0).send(std::string(ok) + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison");
  EXPECT_EQ(plain(client->read_message()), ok_to_client);
  client->send(get);

  server.connection(1).read_head();
  server.connection(1).send(ok);
  EXPECT_EQ(plain(client->read_message()), ok_to_client);
}

TEST_F(Chain, NeverUsesAnIdleLinkThatReceivedBytes) {
  auto client = connect();
  client->send(get);
  server.connection(0).read_head();
  server.connection(0).send(ok);
  client->read_message();
  server.connection(0).send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison");

  client->send(get);

  server.connection(1).read_head();
  server.connection(1).send(ok);
  EXPECT_EQ(plain(client->read_message()), ok_to_client);
}

// ---- links that close --------------------------------------------------------------------------

TEST_F(Chain, ReplacesALinkThatClosedWhileIdle) {
  auto client = connect();
  client->send(get);
  server.connection(0).read_head();
  server.connection(0).send(ok);
  client->read_message();
  server.connection(0).close();

  client->send(get);

  server.connection(1).read_head();
  server.connection(1).send(ok);
  EXPECT_EQ(plain(client->read_message()), ok_to_client);
}

TEST_F(Chain, RetriesOnceWhenAReusedLinkCloses) {
  for (const bool orderly : {true, false}) {
    auto client = connect();
    client->send(get);
    const std::size_t first = server.connections() == 0 ? 0 : server.connections();
    server.connection(first).read_head();
    server.connection(first).send(ok);
    client->read_message();

    // The server receives the request and closes as if it had not seen it.
    client->send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
    server.connection(first).read_to("body");
    orderly ? server.connection(first).close() : server.connection(first).reset();

    EXPECT_EQ(plain(server.connection(first + 1).read_to("body")),
              "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbody");
    server.connection(first + 1).close();
    // A fresh link is not replaced: the request itself may have caused the close.
    EXPECT_TRUE(client->read_message().starts_with("HTTP/1.1 502 Bad Gateway\r\n"));
    EXPECT_EQ(server.connections(), first + 2);
    EXPECT_TRUE(at_rest());
  }
}

TEST_F(Chain, RespondsWhenTheBackendRefusesConnections) {
  server.stop_listening();
  auto client = connect();
  client->send("GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n");

  const std::string answer = client->read_message();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n")) << answer;
  EXPECT_NE(answer.find("\r\nx-evenkeel-reason: connect_failed\r\n"), std::string::npos);
  EXPECT_FALSE(client->ended());
  EXPECT_TRUE(at_rest());
}

// ---- invalid responses -------------------------------------------------------------------------

TEST_F(Chain, TurnsBadHeadsIntoBadGateways) {
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

TEST_F(Chain, EndsEndlessInterimResponses) {
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

TEST_F(Chain, NeverEndsATruncatedResponseProperly) {
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

TEST_F(Chain, BreaksATruncatedResponseToHttp10) {
  auto client = connect();
  client->send("GET / HTTP/1.0\r\n\r\n");
  Peer& backend = server.connection(0);
  backend.read_head();
  backend.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhell\r\n");
  client->read_to("hell");
  backend.close();

  EXPECT_TRUE(client->sees_reset());
}

TEST_F(Chain, TimesOutOnASilentServer) {
  config.pools[0].timeouts.first_byte = 50ms;
  auto client = connect();
  client->send("GET /v2/health HTTP/1.1\r\nHost: a\r\n\r\n");

  const std::string answer = client->read_message();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 504 Gateway Timeout\r\n")) << answer;
  EXPECT_NE(answer.find("x-evenkeel-reason: first_byte_timeout\r\n"), std::string::npos);
  EXPECT_TRUE(server.connection(0).sees_end());
  EXPECT_TRUE(at_rest());
}

TEST_F(Chain, LimitsTheSilenceOfOpenRequestsOfEarlierPlans) {
  auto client = connect();
  client->send(get);
  server.connection(0).read_head();
  const auto before = std::static_pointer_cast<Plan>(host.handler);
  config.pools[0].timeouts.idle = 7s;  // so that the links are made anew
  const WorkerContext worker{loop, metrics_registry, 0, recorder};
  const auto next_set = PoolSet::build(config);
  ASSERT_TRUE(next_set);
  auto plan = std::make_shared<Plan>(std::make_shared<const Config>(config), *next_set, worker,
                                     before.get());
  config.pools[0].timeouts.idle = 8s;
  plan =
      std::make_shared<Plan>(std::make_shared<const Config>(config), *next_set, worker, plan.get());

  plan->suspect("pool", to_string(server.address()), 50ms);

  const std::string answer = client->read_message();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 504 Gateway Timeout\r\n")) << answer;
}

// ---- clients that leave, or are slow -----------------------------------------------------------

TEST_F(Chain, ClosesTheLinkAtOnceWhenTheClientLeavesBeforeTheResponse) {
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

TEST_F(Chain, ClosesTheLinkAtOnceWhenTheClientLeavesDuringTheResponse) {
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

TEST_F(Chain, ClosesTheLinkWhenTheClientLeavesDuringItsRequest) {
  auto client = connect();
  client->send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf.");
  Peer& backend = server.connection(0);
  backend.read_to("half.");

  client->close();

  EXPECT_EQ(backend.read_to_end(), "");
  EXPECT_TRUE(at_rest());
}

TEST_F(Chain, NeverCompletesARequestWhoseBodyIsBroken) {
  auto client = connect();
  client->send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
  Peer& backend = server.connection(0);
  backend.read_to("hello\r\n");

  client->send("zzz\r\n");

  EXPECT_TRUE(client->read_to_end().starts_with("HTTP/1.1 400 "));
  EXPECT_EQ(backend.read_to_end(), "");
  EXPECT_TRUE(at_rest());
}

TEST_F(Chain, PausesTheServerForASlowReader) {
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

TEST_F(Chain, PausesTheClientForASlowServer) {
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

// ---- tunnels -----------------------------------------------------------------------------------

constexpr std::string_view upgrade =
    "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: "
    "websocket\r\nSec-WebSocket-Key: k\r\n\r\n";

TEST_F(Chain, TunnelsWebSockets) {
  auto client = connect();
  client->send(upgrade);
  Peer& backend = server.connection(0);
  EXPECT_EQ(plain(backend.read_head()),
            "GET /ws HTTP/1.1\r\nhost: a\r\nSec-WebSocket-Key: k\r\nconnection: "
            "upgrade\r\nupgrade: websocket\r\n\r\n");
  backend.send(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: "
      "Upgrade\r\nSec-WebSocket-Accept: h\r\n\r\nhi");
  EXPECT_EQ(plain(client->read_head()),
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "
            "h\r\nconnection: upgrade\r\n\r\n");
  EXPECT_EQ(client->read_bytes(2), "hi");

  const std::string large(1'000'000, 'c');
  client->send(large);
  EXPECT_EQ(backend.read_bytes(large.size()), large);
  backend.send(large);
  EXPECT_EQ(client->read_bytes(large.size()), large);

  client->finish_sending();
  EXPECT_EQ(backend.read_to_end(), "");
  backend.send("last words");
  EXPECT_EQ(client->read_bytes(10), "last words");
  backend.close();
  EXPECT_EQ(client->read_to_end(), "");
  EXPECT_TRUE(at_rest());
}

TEST_F(Chain, EndsATunnelWhoseServerEnds) {
  auto client = connect();
  client->send(upgrade);
  Peer& backend = server.connection(0);
  backend.read_head();
  backend.send(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nbye");
  client->read_head();
  backend.close();

  EXPECT_EQ(client->read_to_end(), "bye");
  EXPECT_TRUE(at_rest());
}

TEST_F(Chain, EndsATunnelWhoseClientBreaks) {
  auto client = connect();
  client->send(upgrade);
  Peer& backend = server.connection(0);
  backend.read_head();
  backend.send(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
  client->read_head();
  client->reset();

  EXPECT_TRUE(backend.sees_end());
  EXPECT_TRUE(at_rest());
}

TEST_F(Chain, NeverReadsBytesAfterARefusedUpgradeAsARequest) {
  auto client = connect();
  client->send(std::string(upgrade) + "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
  Peer& backend = server.connection(0);
  backend.read_head();
  backend.send(ok);

  EXPECT_TRUE(client->read_to_end().ends_with("connection: close\r\n\r\nok"));
  EXPECT_EQ(backend.seen(), "");
  EXPECT_EQ(server.connections(), 1u);
}

TEST_F(Chain, ResendsAnUpgradeWhoseLinkClosed) {
  auto client = connect();
  client->send(get);
  server.connection(0).read_head();
  server.connection(0).send(ok);
  client->read_message();
  client->send(upgrade);
  server.connection(0).read_head();
  server.connection(0).close();

  EXPECT_TRUE(server.connection(1).read_head().starts_with("GET /ws "));
}

}  // namespace
}  // namespace evenkeel
