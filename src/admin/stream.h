// A TCP connection of the management plane, in the clear or in TLS.
#pragma once

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "admin/asio.h"

namespace evenkeel {

/// Has one reader and one writer at a time. Operations end with an error when it is closed.
/// Thread: the io_context's.
class AdminStream {
 public:
  using TlsContext = std::shared_ptr<asio::ssl::context>;
  using Buffers = std::array<asio::const_buffer, 2>;

  /// `tls` null: in the clear.
  AdminStream(TcpSocket socket, TlsContext tls);
  AdminStream(const AdminStream&) = delete;
  AdminStream& operator=(const AdminStream&) = delete;

  bool secure() const { return tls_.has_value(); }
  TcpSocket& socket() { return tls_ ? tls_->next_layer() : *plain_; }
  /// A client names the server, whose certificate must be for that name.
  void expect_server(const std::string& name);

  Awaitable<void> handshake(bool as_client, ErrorCode& error);
  Awaitable<std::size_t> read_some(asio::mutable_buffer into, ErrorCode& error);
  /// Writes some of both, in their order.
  Awaitable<std::size_t> write_some(Buffers buffers, ErrorCode& error);
  /// Says that no more follows; the caller bounds the time.
  Awaitable<void> shutdown_send();
  void close();

 private:
  TlsContext context_;
  std::optional<TcpSocket> plain_;
  std::optional<asio::ssl::stream<TcpSocket>> tls_;
};

}  // namespace evenkeel
