#include "admin/stream.h"

#include <boost/asio/ssl/host_name_verification.hpp>
#include <utility>

namespace evenkeel {

AdminStream::AdminStream(TcpSocket socket, TlsContext tls) : context_(std::move(tls)) {
  if (context_ == nullptr) {
    plain_.emplace(std::move(socket));
  } else {
    tls_.emplace(std::move(socket), *context_);
  }
}

void AdminStream::expect_server(const std::string& name) {
  if (!tls_) return;
  SSL_set_tlsext_host_name(tls_->native_handle(), name.c_str());
  tls_->set_verify_callback(asio::ssl::host_name_verification(name));
}

Awaitable<void> AdminStream::handshake(bool as_client, ErrorCode& error) {
  if (!tls_) co_return;
  const auto side = as_client ? asio::ssl::stream_base::client : asio::ssl::stream_base::server;
  co_await tls_->async_handshake(side, or_error(error));
}

Awaitable<std::size_t> AdminStream::read_some(asio::mutable_buffer into, ErrorCode& error) {
  std::size_t size = 0;
  if (tls_) {
    size = co_await tls_->async_read_some(into, or_error(error));
  } else {
    size = co_await plain_->async_read_some(into, or_error(error));
  }
  co_return size;
}

Awaitable<std::size_t> AdminStream::write_some(Buffers buffers, ErrorCode& error) {
  std::size_t size = 0;
  if (tls_) {
    size = co_await tls_->async_write_some(buffers, or_error(error));
  } else {
    size = co_await plain_->async_write_some(buffers, or_error(error));
  }
  co_return size;
}

Awaitable<void> AdminStream::shutdown_send() {
  ErrorCode ignored;
  // Waits for the peer's close_notify: a peer that never sends it is cut by the caller's deadline.
  if (tls_) co_await tls_->async_shutdown(or_error(ignored));
  socket().shutdown(asio::socket_base::shutdown_send, ignored);
}

void AdminStream::close() {
  ErrorCode ignored;
  socket().close(ignored);
}

}  // namespace evenkeel
