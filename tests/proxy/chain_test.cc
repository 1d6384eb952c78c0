#include "proxy/chain.h"

#include <gtest/gtest.h>

#include <chrono>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view get = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
constexpr std::string_view ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
constexpr std::string_view ok_to_client = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

// ---- requests and responses --------------------------------------------------------------------

/// Searching each pool's fallback took the third power of their number.
TEST_F(Chain, APlanOfThousandsOfPoolsThatFallBackToEachOtherIsBuiltInAFractionOfASecond) {
  constexpr int count = 3'000;
  config.pools.front().fallback.pool = "pool-0";
  for (int i = 0; i < count; ++i) {
    config.pools.push_back({.name = "pool-" + std::to_string(i)});
    config.pools.back().backends.push_back({.address = server.address()});
    if (i + 1 < count) config.pools.back().fallback.pool = "pool-" + std::to_string(i + 1);
  }
  const auto began = std::chrono::steady_clock::now();

  build();

  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
}

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

}  // namespace
}  // namespace evenkeel
