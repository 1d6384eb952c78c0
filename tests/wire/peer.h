// The other end of a connection under test. Its calls run the loop until they are done: no threads,
// no sleeps.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/base/loop.h"

namespace evenkeel {

/// Runs the loop until `holds()`; false on a timeout.
inline bool eventually(Loop& loop, const std::function<bool()>& holds,
                       Duration timeout = std::chrono::seconds(20)) {
  return loop.run_until(holds, Clock::now() + timeout);
}

/// Runs the loop until everything in flight is handled: until a marker has passed through the
/// kernel several times.
inline void drain_loop(Loop& loop, int rounds = 8) {
  for (int round = 0; round < rounds; ++round) {
    bool back = false;
    loop.post([&back] { back = true; });
    loop.run_until([&back] { return back; });
  }
}

/// Two ends of a TCP connection on loopback; both non-blocking.
struct SocketPair {
  int ours = -1;
  int theirs = -1;
};

inline SocketPair connected_pair(int buffer_bytes = 0) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (buffer_bytes > 0) {
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
  }
  EXPECT_EQ(bind(listener, generic, size), 0);
  EXPECT_EQ(listen(listener, 8), 0);
  getsockname(listener, generic, &size);
  SocketPair ends;
  ends.theirs = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (buffer_bytes > 0) {
    setsockopt(ends.theirs, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    setsockopt(ends.theirs, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
  }
  EXPECT_EQ(connect(ends.theirs, generic, size), 0);
  ends.ours = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  EXPECT_GE(ends.ours, 0);
  fcntl(ends.theirs, F_SETFL, O_NONBLOCK);
  close(listener);
  return ends;
}

class Peer {
 public:
  Peer(Loop& loop, int fd) : loop_(loop), fd_(fd), watch_(loop, fd) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  Peer(const Peer&) = delete;
  ~Peer() { close(); }

  /// Sends everything, running the loop while the kernel takes no more.
  void send(std::string_view bytes) {
    const bool sent = eventually(loop_, [&] {
      send_some(bytes);
      return bytes.empty() || broken_;
    });
    EXPECT_TRUE(sent) << "the other side does not read what the peer sends";
  }
  /// Sends what the kernel takes now; removes it from `bytes`.
  void send_some(std::string_view& bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count < 0) {
        broken_ = broken_ || (errno != EAGAIN && errno != EWOULDBLOCK);
        return;
      }
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  /// What has arrived and was not read yet.
  std::string& seen() {
    drain();
    return seen_;
  }
  /// Reads up to the end of `text`.
  std::string read_to(std::string_view text) {
    std::size_t at = std::string::npos;
    const bool came =
        eventually(loop_, [&] { return (at = seen().find(text)) != std::string::npos || ended_; });
    if (!came || at == std::string::npos) {
      ADD_FAILURE() << "waited for \"" << text << "\" and saw \"" << seen_.substr(0, 2000) << '"';
      return {};
    }
    return take(at + text.size());
  }
  std::string read_head() { return read_to("\r\n\r\n"); }
  /// Reads that many bytes.
  std::string read_bytes(std::size_t count) {
    const bool came = eventually(loop_, [&] { return seen().size() >= count || ended_; });
    EXPECT_TRUE(came && seen_.size() >= count)
        << "waited for " << count << " bytes and saw " << seen_;
    return take(std::min(count, seen_.size()));
  }
  /// Reads a message with a content-length or without a body.
  std::string read_message() {
    std::string message = read_head();
    const std::string_view name = "content-length: ";
    const auto at = message.find(name);
    if (at == std::string::npos) return message;
    std::size_t length = 0;
    std::from_chars(message.data() + at + name.size(), message.data() + message.size(), length);
    return message + read_bytes(length);
  }
  /// Reads up to the orderly end.
  std::string read_to_end() {
    EXPECT_TRUE(sees_end()) << "no end after \"" << seen_ << '"';
    return take(seen_.size());
  }

  /// Whether the other side ended its sending (FIN) or broke the connection.
  bool sees_end() {
    return eventually(loop_, [&] { return drain(), ended_; });
  }
  /// Whether the other side broke the connection: what arrived may be incomplete.
  bool sees_reset() { return sees_end() && reset_; }
  bool ended() {
    drain();
    return ended_;
  }
  /// Whether the other side has closed both ways, without reading what was sent last.
  bool refused() const { return broken_; }

  void finish_sending() { shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ < 0) return;
    watch_.release();
    ::close(std::exchange(fd_, -1));
  }
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }

 private:
  void drain() {
    char bytes[65536];
    while (fd_ >= 0 && !ended_) {
      const ssize_t count = recv(fd_, bytes, sizeof bytes, 0);
      if (count > 0) {
        seen_.append(bytes, static_cast<std::size_t>(count));
      } else if (count == 0) {
        ended_ = true;
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return;
      } else {
        ended_ = reset_ = true;
      }
    }
  }
  std::string take(std::size_t count) {
    std::string taken = seen_.substr(0, count);
    seen_.erase(0, count);
    return taken;
  }

  Loop& loop_;
  int fd_;
  Watch watch_;  // input wakes the loop
  std::string seen_;
  bool ended_ = false;
  bool reset_ = false;
  bool broken_ = false;
};

}  // namespace evenkeel
