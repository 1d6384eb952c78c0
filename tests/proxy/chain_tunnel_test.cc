// Upgraded connections, through the whole chain.
#include <gtest/gtest.h>

#include "proxy/chain.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view get = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
constexpr std::string_view ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
constexpr std::string_view upgrade =
    "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: "
    "websocket\r\nSec-WebSocket-Key: k\r\n\r\n";

class TunnelChain : public Chain {};

TEST_F(TunnelChain, TunnelsWebSockets) {
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

TEST_F(TunnelChain, EndsATunnelWhoseServerEnds) {
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

TEST_F(TunnelChain, BlamesNoBackendForTheEndOfATunnel) {
  config.pools[0].timeouts.idle = 50ms;
  for (const bool resets : {false, true}) {
    auto client = connect();
    client->send(upgrade);
    Peer& backend = server.connection(resets ? 1 : 0);
    backend.read_head();
    backend.send(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    client->read_head();
    if (resets) backend.reset();

    client->read_to_end();
    ASSERT_TRUE(at_rest());
    const Load& load = pool_set->pools()[0].state->backends()[0]->load();
    EXPECT_EQ(load.errors_total(), 0u);
    EXPECT_EQ(load.failures_total(), 0u);
  }
}

TEST_F(TunnelChain, EndsATunnelWhoseClientBreaks) {
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
