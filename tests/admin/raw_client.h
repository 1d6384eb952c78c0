// A client that sends exactly the bytes that it is given, and never waits for longer than ten
// seconds.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace evenkeel::testing {

struct RawReply {
  int status = 0;  ///< 0: the connection ended before a whole reply
  std::map<std::string, std::string> fields;
  std::string body;
};

class RawClient {
 public:
  static constexpr int patience_ms = 10'000;

  /// `receive_buffer` 0: the system's.
  explicit RawClient(std::uint16_t port, int receive_buffer = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer != 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  RawClient(const RawClient&) = delete;
  RawClient(RawClient&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_) {}
  ~RawClient() {
    if (fd_ >= 0) close(fd_);
  }

  bool connected() const { return connected_; }

  /// False: the peer has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  /// One reply with a content-length; `head_only`: to a HEAD.
  RawReply read_reply(bool head_only = false) {
    RawReply reply;
    while (received_.find("\r\n\r\n") == std::string::npos) {
      if (!read_some()) return reply;
    }
    const auto head_end = received_.find("\r\n\r\n");
    const std::string head = received_.substr(0, head_end + 2);
    received_.erase(0, head_end + 4);
    for (auto line = head.find("\r\n") + 2; line < head.size();) {
      const auto end = head.find("\r\n", line);
      const auto colon = head.find(':', line);
      reply.fields[head.substr(line, colon - line)] = head.substr(colon + 2, end - colon - 2);
      line = end + 2;
    }
    const std::size_t size = head_only ? 0 : std::stoul(reply.fields["content-length"]);
    while (received_.size() < size) {
      if (!read_some()) return reply;
    }
    reply.body = received_.substr(0, size);
    received_.erase(0, size);
    reply.status = std::atoi(head.c_str() + 9);
    return reply;
  }

  /// The status of the next reply; its body stays unread.
  int read_reply_head() {
    while (received_.find("\r\n\r\n") == std::string::npos) {
      if (!read_some()) return 0;
    }
    const auto length = received_.find("content-length: ");
    if (length != std::string::npos) {
      remaining_ = std::stoul(received_.substr(length + 16)) + received_.find("\r\n\r\n") + 4 -
                   received_.size();
    }
    return std::atoi(received_.c_str() + 9);
  }

  /// What follows the head, up to `end`.
  std::string read_until(std::string_view end) {
    while (received_.find("\r\n\r\n") == std::string::npos ||
           received_.find(end, received_.find("\r\n\r\n") + 4) == std::string::npos) {
      if (!read_some()) break;
    }
    return received_;
  }

  /// The first line of an interim response.
  std::string read_interim() {
    while (received_.find("\r\n\r\n") == std::string::npos) {
      if (!read_some()) return {};
    }
    const std::string line = received_.substr(0, received_.find("\r\n"));
    received_.erase(0, received_.find("\r\n\r\n") + 4);
    return line;
  }

  /// After `read_reply_head` and `ends`: the whole body has arrived.
  bool complete() const { return remaining_ == 0; }

  /// Whether the peer closes the connection, after whatever it still sends.
  bool ends() {
    while (read_some()) received_.clear();
    return ended_;
  }

 private:
  bool read_some() {
    pollfd watched{fd_, POLLIN, 0};
    if (poll(&watched, 1, patience_ms) <= 0) return false;
    char bytes[65536];
    const ssize_t size = recv(fd_, bytes, sizeof(bytes), 0);
    ended_ = size <= 0;
    if (size > 0) {
      received_.append(bytes, static_cast<std::size_t>(size));
      remaining_ -= std::min(remaining_, static_cast<std::size_t>(size));
    }
    return size > 0;
  }

  int fd_;
  bool connected_ = false;
  bool ended_ = false;
  std::string received_;
  std::size_t remaining_ = 0;  // of the body after read_reply_head
};

}  // namespace evenkeel::testing
