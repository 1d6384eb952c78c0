// A client of HTTP/1.1 whose calls block.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admin/asio.h"
#include "admin/stream.h"
#include "evenkeel/base/result.h"
#include "evenkeel/net/endpoint.h"

namespace evenkeel {

/// A server, and what is said of it in messages.
struct HttpServer {
  std::vector<Endpoint> endpoints;  ///< tried in this order; the one that answered goes first
  std::string host;                 ///< which its certificate must be for
  AdminStream::TlsContext tls;      ///< null: in the clear
  /// Says why a handshake failed.
  std::string (*tls_failure)(const ErrorCode& error) = nullptr;
  std::string closed_hint = {};  ///< what is said where a server in the clear closes at once
};

/// A TLS context that verifies servers by these authorities; empty: by the system's.
Result<AdminStream::TlsContext> verifying_tls_context(const std::string& ca_file);

struct HttpAnswer {
  int status = 0;
  std::string body;
  std::optional<std::string> retry_after;
};

/// Keeps its connection between requests. Blocks.
///
/// Thread: one; `cancel`: any. Errors: connect_failed, tls_failed, first_byte_timeout (no complete
/// answer in time, or cancelled), backend_closed, backend_protocol.
class HttpClient {
 public:
  explicit HttpClient(std::size_t max_answer_bytes) : max_answer_bytes_(max_answer_bytes) {}
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// What is to be connected to next.
  HttpServer& server() { return server_; }
  const HttpServer& server() const { return server_; }
  bool is_connected() const { return stream_ != nullptr; }
  void disconnect() { stream_.reset(); }

  /// Sends a request, head and body as they are.
  Result<HttpAnswer> send(std::string request, Duration timeout);
  /// Ends the request in progress, and all later ones, as if their time were over.
  void cancel();

 private:
  using StreamPtr = std::shared_ptr<AdminStream>;
  using Parser = boost::beast::http::response_parser<boost::beast::http::string_body>;

  Awaitable<ErrorCode> connect_within(TcpSocket& socket, const Endpoint& endpoint,
                                      Duration timeout);
  Awaitable<Result<StreamPtr>> connect();
  Awaitable<Result<HttpAnswer>> exchange(std::string request);
  static Awaitable<void> store(Awaitable<Result<HttpAnswer>> work,
                               std::optional<Result<HttpAnswer>>& outcome);
  static Awaitable<ErrorCode> write(AdminStream& stream, std::string_view bytes);
  void begin_answer(std::optional<Parser>& parser) const;
  static std::optional<Error> parse(Parser& parser, boost::beast::flat_buffer& buffer, bool closed);

  const std::size_t max_answer_bytes_;
  HttpServer server_;
  asio::io_context io_{1};
  StreamPtr stream_;  // idle, kept for the next request
  std::atomic<bool> cancelled_{false};
};

}  // namespace evenkeel
