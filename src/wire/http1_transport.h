// The connection that an HTTP/1 frontend and the bodies it reads share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "evenkeel/base/buffer.h"
#include "evenkeel/net/socket.h"

namespace evenkeel {

/// The socket of a client's connection with the bytes that were read and are not consumed yet.
struct Http1Transport {
  Loop& loop() { return socket->loop(); }
  Watch& watch() { return socket->watch(); }

  /// Reads once, without waiting, behind what is in `in`.
  Socket::ReadStatus fill() {
    const auto got = socket->read_some(in.free_begin(), in.free_size());
    in.end += static_cast<std::uint32_t>(got.size);
    return got.status;
  }

  /// Sends an interim response without waiting. What the kernel takes only in part is completed by
  /// the final response; what it does not take at all is dropped.
  void write_interim(std::string_view interim) {
    if (!unsent_interim.empty()) return;
    const std::size_t sent = socket->write_now(interim);
    if (sent > 0) unsent_interim = interim.substr(sent);
  }

  std::unique_ptr<Socket> socket;
  ReadBuffer in;
  ReadBuffer carried_over;       ///< bytes of the next message that were read with a body
  std::uint32_t body_begin = 0;  ///< in `in`, behind the current head
  std::string unsent_interim;    ///< the rest of an interim response
};

}  // namespace evenkeel
