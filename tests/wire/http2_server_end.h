// The server's end of an HTTP/2 connection, whose frames a test sends by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/peer.h"

namespace evenkeel {

class Http2ServerEnd {
 public:
  enum Type : std::uint8_t {
    data = 0,
    headers = 1,
    rst_stream = 3,
    settings = 4,
    ping = 6,
    goaway = 7
  };
  struct Frame {
    std::uint8_t type;
    std::uint8_t flags;
    std::uint32_t stream;
  };

  explicit Http2ServerEnd(Peer& peer) : peer_(peer) {}

  void send(std::uint8_t type, std::uint8_t flags, std::uint32_t stream, std::string_view payload) {
    std::string frame;
    const auto put = [&frame](std::size_t number, int bytes) {
      while (--bytes >= 0) frame += static_cast<char>(number >> (8 * bytes) & 0xff);
    };
    put(payload.size(), 3);
    put(type, 1);
    put(flags, 1);
    put(stream, 4);
    peer_.send(frame.append(payload));
  }
  void accept() { send(settings, 0, 0, {}); }
  /// As `accept`, with ENABLE_CONNECT_PROTOCOL (RFC 8441).
  void accept_with_tunnels() { send(settings, 0, 0, std::string_view("\0\x8\0\0\0\x1", 6)); }
  /// ":status: 200", with which the response ends.
  void answer(std::uint32_t stream) { send(headers, 0x5, stream, "\x88"); }
  /// As `answer`, but a body may follow.
  void begin_answer(std::uint32_t stream) { send(headers, 0x4, stream, "\x88"); }
  void answer_ping() { send(ping, 0x1, 0, std::string_view("\0\0\0\0\0\0\0\0", 8)); }
  void acknowledge_settings() { send(settings, 0x1, 0, {}); }
  /// Streams after `last` are not processed.
  void go_away(std::uint8_t last, std::uint8_t code) {
    const char payload[] = {0, 0, 0, static_cast<char>(last), 0, 0, 0, static_cast<char>(code)};
    send(goaway, 0, 0, {payload, sizeof payload});
  }
  void reset(std::uint32_t stream, std::uint8_t code) {
    const char payload[] = {0, 0, 0, static_cast<char>(code)};
    send(rst_stream, 0, stream, {payload, sizeof payload});
  }

  /// All frames that the client has sent so far.
  const std::vector<Frame>& frames() {
    constexpr std::size_t preface_bytes = 24;
    const std::string& seen = peer_.seen();
    if (at_ == 0) at_ = preface_bytes;
    const auto byte = [&seen](std::size_t at) { return static_cast<std::uint8_t>(seen[at]); };
    while (at_ + 9 <= seen.size()) {
      const std::size_t size = std::size_t{byte(at_)} << 16 | std::size_t{byte(at_ + 1)} << 8 |
                               std::size_t{byte(at_ + 2)};
      if (at_ + 9 + size > seen.size()) break;
      frames_.push_back({byte(at_ + 3), byte(at_ + 4), byte(at_ + 8)});
      at_ += 9 + size;
    }
    return frames_;
  }
  std::size_t count(std::uint8_t type) {
    std::size_t found = 0;
    for (const Frame& frame : frames()) found += frame.type == type && frame.flags != 0x1;
    return found;
  }
  /// Requests have flags, such as the end of their stream, that other frames have not.
  std::size_t requests() {
    std::size_t found = 0;
    for (const Frame& frame : frames()) found += frame.type == headers;
    return found;
  }
  Peer& peer() { return peer_; }

 private:
  Peer& peer_;
  std::size_t at_ = 0;
  std::vector<Frame> frames_;
};

}  // namespace evenkeel
