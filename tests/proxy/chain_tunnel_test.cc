// Upgraded connections, through the whole chain.
#include <gtest/gtest.h>

#include "proxy/chain.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view get = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
constexpr std::string_view ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
constexpr std::string_view upgrade =
    "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
/// The answer to it.
constexpr std::string_view upgraded =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

class TunnelChain : public Chain {};

TEST_F(TunnelChain, TunnelsWebSockets) {
  auto client = connect();
  client->send(upgrade);
  Peer& backend = server.connection(0);
  EXPECT_EQ(plain(backend.read_head()),
            "GET /ws HTTP/1.1\r\nhost: a\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            "connection: upgrade\r\nupgrade: websocket\r\n\r\n");
  backend.send(std::string(upgraded) + "hi");
  EXPECT_EQ(plain(client->read_head()),
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nconnection: upgrade\r\n\r\n");
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

TEST_F(TunnelChain, EndsATunnelWhoseServerEnds) {
  auto client = connect();
  client->send(upgrade);
  Peer& backend = server.connection(0);
  backend.read_head();
  backend.send(std::string(upgraded) + "bye");
  client->read_head();
  backend.close();

  EXPECT_EQ(client->read_to_end(), "bye");
  EXPECT_TRUE(at_rest());
}

TEST_F(TunnelChain, BlamesNoBackendForTheEndOfATunnel) {
  config.pools[0].timeouts.idle = 50ms;
  for (const bool resets : {false, true}) {
    auto client = connect();
    client->send(upgrade);
    Peer& backend = server.connection(resets ? 1 : 0);
    backend.read_head();
    backend.send(upgraded);
    client->read_head();
    if (resets) backend.reset();

    client->read_to_end();
    ASSERT_TRUE(at_rest());
    const SharedBackend& shared = pool_set->pools()[0].state->backends()[0]->shared();
    EXPECT_EQ(shared.stats.errors_total(), 0u);
    EXPECT_EQ(shared.stats.failed_total(), 0u);
  }
}

TEST_F(TunnelChain, EndsATunnelWhoseClientBreaks) {
  auto client = connect();
  client->send(upgrade);
  Peer& backend = server.connection(0);
  backend.read_head();
  backend.send(upgraded);
  client->read_head();
  client->reset();

  EXPECT_TRUE(backend.sees_end());
  EXPECT_TRUE(at_rest());
}

TEST_F(TunnelChain, NeverReadsBytesAfterARefusedUpgradeAsARequest) {
  auto client = connect();
  client->send(std::string(upgrade) + "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
  Peer& backend = server.connection(0);
  backend.read_head();
  backend.send(ok);

  EXPECT_TRUE(client->read_to_end().ends_with("connection: close\r\n\r\nok"));
  EXPECT_EQ(backend.seen(), "");
  EXPECT_EQ(server.connections(), 1u);
}

TEST_F(TunnelChain, OpensNoTunnelThatDoesNotAnswerTheRequest) {
  const std::string_view plain_get = get;
  const std::string without_key(
      "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  const std::string to_h2c(
      "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
      "HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n");
  const std::string start = "HTTP/1.1 101 Switching Protocols\r\n";
  const std::string accept = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
  const std::string h2c = start + "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
  const struct {
    std::string_view request;
    std::string answer;
  } cases[] = {
      {upgrade, start + "\r\n"},
      {upgrade, start + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"},
      {upgrade, start + "Upgrade: websocket\r\n" + accept + "\r\n"},
      {upgrade, start + "Connection: close\r\nUpgrade: websocket\r\n" + accept + "\r\n"},
      {upgrade, start + "Connection: Upgrade\r\n" + accept + "\r\n"},
      {upgrade, start + "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n" + accept + "\r\n"},
      {upgrade,
       start + "Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n" + accept + "\r\n"},
      {upgrade, start + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "
                        "S3PPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"},
      {upgrade, h2c},
      {upgrade,
       "HTTP/1.0 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
           accept + "\r\n"},
      {without_key, std::string(upgraded)},
      {to_h2c, h2c},
      {plain_get, std::string(upgraded)},
      {plain_get, start + "\r\n"},
  };
  config.pools[0].outlier.max_ejected = 0;
  std::size_t connections = 0;
  for (const auto& [request, answer] : cases) {
    auto client = connect();
    client->send(request);
    Peer& backend = server.connection(connections++);
    backend.read_head();

    backend.send(answer + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");

    const std::string refusal = client->read_message();
    EXPECT_TRUE(refusal.starts_with("HTTP/1.1 502 ")) << request << answer << refusal;
    EXPECT_NE(refusal.find("backend_protocol"), std::string::npos) << refusal;
    EXPECT_TRUE(backend.sees_end()) << answer;
    client->close();
    EXPECT_TRUE(at_rest());
  }
}

TEST_F(TunnelChain, ResendsAnUpgradeWhoseLinkClosed) {
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
