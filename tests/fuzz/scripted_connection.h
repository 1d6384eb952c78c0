// A connection whose other end sends some bytes in pieces and then closes its sending side.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "evenkeel/base/loop.h"
#include "evenkeel/net/socket.h"
#include "require.h"

/// A socket pair: take_socket() hands out one end, the destructor closes the other.
class ScriptedConnection {
 public:
  explicit ScriptedConnection(evenkeel::Loop& loop) : loop_(loop) {
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends_) == 0,
            "socketpair succeeds");
  }
  ScriptedConnection(const ScriptedConnection&) = delete;
  ~ScriptedConnection() { close(ends_[1]); }

  std::unique_ptr<evenkeel::Socket> take_socket() {
    return std::make_unique<evenkeel::Socket>(loop_, ends_[0]);
  }

  /// Sends the bytes in that many pieces and runs the loop between them, then closes the sending
  /// side and waits until the loop is idle.
  void play(std::string_view bytes, std::size_t pieces) {
    const std::size_t each = bytes.size() / pieces + 1;
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, each);
      // Fails if our end has closed already.
      if (send(ends_[1], piece.data(), piece.size(), MSG_NOSIGNAL) < 0) break;
      bytes.remove_prefix(piece.size());
      receive();
      bool back = false;
      loop_.post([&back] { back = true; });
      loop_.run_until([&back] { return back; });
    }
    shutdown(ends_[1], SHUT_WR);
    const bool over = loop_.run_until([this] { return receive(), loop_.spawned() == 0; },
                                      evenkeel::Clock::now() + std::chrono::minutes(1));
    require(over, "the connection ends within a minute");
    receive();
  }
  const std::string& received() const { return received_; }

 private:
  void receive() {
    char bytes[65536];
    ssize_t count;
    while ((count = recv(ends_[1], bytes, sizeof bytes, 0)) > 0)
      received_.append(bytes, static_cast<std::size_t>(count));
  }

  evenkeel::Loop& loop_;
  int ends_[2] = {-1, -1};
  std::string received_;
};
