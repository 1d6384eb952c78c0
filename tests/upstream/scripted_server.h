// A server that says, for each connection, exactly the bytes of a script.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/net/listener.h"
#include "evenkeel/net/socket.h"
#include "upstream/test_server.h"
#include "wire/peer.h"

namespace evenkeel {

/// Accepts connections, each of which a test then plays by hand.
class ScriptedServer {
 public:
  explicit ScriptedServer(Loop& loop) : loop_(loop) {
    const int fd = listening_fd();
    endpoint_ = Listener::local_endpoint(fd);
    listener_.emplace(loop_, fd, [this](int accepted, const Endpoint&) {
      connections_.push_back(std::make_unique<Peer>(loop_, accepted));
    });
  }

  const Endpoint& endpoint() const { return endpoint_; }
  std::size_t accepted() const { return connections_.size(); }
  /// The connection with this number, once it is there.
  Peer& connection(std::size_t number) {
    EXPECT_TRUE(eventually(loop_, [&] { return connections_.size() > number; }));
    return *connections_.at(number);
  }

 private:
  Loop& loop_;
  Endpoint endpoint_;
  std::optional<Listener> listener_;
  std::vector<std::unique_ptr<Peer>> connections_;
};

}  // namespace evenkeel
