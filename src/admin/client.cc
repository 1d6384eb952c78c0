#include "evenkeel/admin/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "admin/asio.h"
#include "admin/stream.h"
#include "evenkeel/base/file.h"
#include "evenkeel/config/address.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/net/tls_errors.h"

namespace evenkeel {
namespace {

namespace http = boost::beast::http;

constexpr std::size_t max_head_bytes = 16 * 1024;
constexpr std::size_t max_token_file_bytes = 8 * 1024;
constexpr std::size_t read_bytes = 64 * 1024;

Error failure(Fault fault, std::string detail) {
  return {.fault = fault, .side = Side::backend, .detail = std::move(detail)};
}

Error usage_error(std::string detail) {
  return {.fault = Fault::bad_request, .side = Side::client, .detail = std::move(detail)};
}

Result<std::string> read_token(const std::string& file) {
  const auto read = read_file(file, max_token_file_bytes);
  if (const auto* error = std::get_if<FileError>(&read)) {
    return usage_error(fmt::format("--token-file {}: {}", file, error->why));
  }
  const std::string& text = std::get<std::string>(read);
  constexpr const char* space = " \t\r\n";
  const auto begin = text.find_first_not_of(space);
  if (begin == std::string::npos) return usage_error("--token-file " + file + ": is empty");
  const auto end = text.find_first_of(space, begin);
  return text.substr(begin, end == std::string::npos ? end : end - begin);
}

Result<AdminStream::TlsContext> tls_context(const AdminTarget& target) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
  ErrorCode error;
  if (target.ca_file.empty()) {
    context->set_default_verify_paths(error);
  } else {
    context->load_verify_file(target.ca_file, error);
  }
  if (error) return usage_error(target.ca_file + ": " + error.message());
  context->set_verify_mode(asio::ssl::verify_peer);
  if (target.cert_file.empty()) {
    if (target.key_file.empty()) return context;
    return usage_error("--key needs the certificate of that key: --cert FILE");
  }
  context->use_certificate_chain_file(target.cert_file, error);
  if (error) return usage_error("--cert " + target.cert_file + ": " + error.message());
  const std::string& key = target.key_file.empty() ? target.cert_file : target.key_file;
  context->use_private_key_file(key, asio::ssl::context::pem, error);
  if (error) return usage_error("--key " + key + ": " + error.message());
  return context;
}

/// Why a handshake failed, and the cure where an option of the command is one.
std::string tls_failure(const ErrorCode& error) {
  std::string text = "TLS: " + error.message();
  if (error.category() != asio::error::get_ssl_category()) return text;
  switch (client_handshake_outcome(static_cast<unsigned long>(error.value()))) {
    case TlsOutcome::not_tls:
      return "the server does not speak TLS on this port: leave out https:// in --admin";
    case TlsOutcome::certificate:
      return text + "; give the authority of its certificate with --ca-file";
    default: return text;
  }
}

asio::ip::tcp::endpoint to_asio(const Endpoint& endpoint) {
  asio::ip::tcp::endpoint converted;
  std::memcpy(converted.data(), endpoint.address(), endpoint.size);
  converted.resize(endpoint.size);
  return converted;
}

}  // namespace

class AdminClient::Impl {
 public:
  std::string address;
  std::string host;       // of the URL
  std::string authority;  // an address: the listener refuses names that it does not know
  std::string token;
  std::vector<Endpoint> endpoints;
  AdminStream::TlsContext tls;        // null: in the clear
  AdminStream::TlsContext other_tls;  // of the other scheme
  bool may_switch_scheme = false;
  bool token_needs_tls = false;

  Result<AdminResponse> get(const std::string& path, Duration timeout) {
    const bool reused = stream_ != nullptr;
    auto response = request("GET", path, "", timeout);
    // The daemon closes a connection that has been idle for long.
    if (response || !reused || response.error().fault != Fault::backend_closed) return response;
    return request("GET", path, "", timeout);
  }

  Result<AdminResponse> post(const std::string& path, const std::string& body, Duration timeout) {
    stream_.reset();
    return request("POST", path, body, timeout);
  }

 private:
  using StreamPtr = std::shared_ptr<AdminStream>;

  Result<AdminResponse> request(std::string_view method, const std::string& path,
                                const std::string& body, Duration timeout) {
    const auto send = [&] {
      return run(exchange(head_of(method, path, body.size()) + body), timeout);
    };
    auto response = send();
    if (response || !may_speak_other_scheme(response.error())) return response;
    switch_scheme();
    auto other = send();
    if (other) return other;
    switch_scheme();
    return response;
  }

  /// True if a daemon that speaks the other scheme fails like this. That one has not processed
  /// anything: it understands no request.
  bool may_speak_other_scheme(const Error& error) const {
    if (!may_switch_scheme) return false;
    return tls != nullptr
               ? error.fault == Fault::tls_failed
               : error.fault == Fault::backend_closed || error.fault == Fault::backend_protocol;
  }

  void switch_scheme() { std::swap(tls, other_tls); }

  std::string head_of(std::string_view method, const std::string& path,
                      std::size_t body_size) const {
    std::string head =
        fmt::format("{} {} HTTP/1.1\r\nhost: {}\r\naccept: */*\r\n", method, path, authority);
    const bool sends_token = !token.empty() && (tls != nullptr || !token_needs_tls);
    if (sends_token) head += fmt::format("authorization: Bearer {}\r\n", token);
    if (method == "POST") head += fmt::format("content-length: {}\r\n", body_size);
    return head + "\r\n";
  }

  /// Runs `work` to its end, or until the time is over; then its connection is closed.
  Result<AdminResponse> run(Awaitable<Result<AdminResponse>> work, Duration timeout) {
    std::optional<Result<AdminResponse>> outcome;
    asio::cancellation_signal cancel;
    asio::co_spawn(io_, store(std::move(work), outcome),
                   asio::bind_cancellation_slot(cancel.slot(), asio::detached));
    io_.restart();
    io_.run_for(timeout);
    if (outcome) return std::move(*outcome);
    cancel.emit(asio::cancellation_type::terminal);
    io_.restart();
    io_.run();
    return failure(Fault::first_byte_timeout,
                   fmt::format("no response within {:.3g} s", seconds_of(timeout)));
  }

  static Awaitable<void> store(Awaitable<Result<AdminResponse>> work,
                               std::optional<Result<AdminResponse>>& outcome) {
    auto result = co_await std::move(work);
    outcome.emplace(std::move(result));
  }

  Awaitable<Result<StreamPtr>> connect() {
    std::string last_error = "the name has no address";
    for (const Endpoint& endpoint : endpoints) {
      TcpSocket socket(io_.get_executor());
      ErrorCode error;
      co_await socket.async_connect(to_asio(endpoint), or_error(error));
      if (error) {
        last_error = error.message();
        continue;
      }
      ErrorCode ignored;
      socket.set_option(asio::ip::tcp::no_delay(true), ignored);
      auto stream = std::make_shared<AdminStream>(std::move(socket), tls);
      stream->expect_server(host);
      co_await stream->handshake(true, error);
      if (error) co_return failure(Fault::tls_failed, tls_failure(error));
      co_return stream;
    }
    co_return failure(Fault::connect_failed, last_error);
  }

  Awaitable<ErrorCode> send(AdminStream& stream, std::string_view bytes) {
    ErrorCode error;
    while (!bytes.empty() && !error) {
      const AdminStream::Buffers buffers = {asio::const_buffer(bytes.data(), bytes.size()),
                                            asio::const_buffer()};
      const std::size_t written = co_await stream.write_some(buffers, error);
      bytes.remove_prefix(written);
    }
    co_return error;
  }

  Awaitable<Result<AdminResponse>> exchange(std::string request) {
    StreamPtr stream = std::exchange(stream_, nullptr);
    if (stream == nullptr) {
      auto connected = co_await connect();
      if (!connected) co_return std::move(connected.error());
      stream = *connected;
    }
    const ErrorCode unsent = co_await send(*stream, request);
    if (unsent) co_return failure(Fault::backend_closed, unsent.message());

    http::response_parser<http::string_body> parser;
    parser.header_limit(max_head_bytes);
    parser.body_limit(max_response_bytes);
    parser.eager(true);
    boost::beast::flat_buffer buffer(2 * read_bytes);
    bool closed = false;
    while (!parser.is_done()) {
      ErrorCode error;
      const std::size_t room = std::min(read_bytes, buffer.max_size() - buffer.size());
      const std::size_t size = co_await stream->read_some(buffer.prepare(room), error);
      buffer.commit(size);
      closed = error || size == 0;
      auto problem = parse(parser, buffer, closed);
      if (!problem) continue;
      if (error && error != asio::error::eof) problem->detail += ": " + error.message();
      if (closed && tls == nullptr && !parser.got_some())
        problem->detail += "; a listener with TLS needs https:// in --admin";
      co_return std::move(*problem);
    }
    if (!closed && parser.get().keep_alive()) stream_ = stream;
    co_return AdminResponse{static_cast<int>(parser.get().result_int()),
                            std::move(parser.get().body()),
                            parser.get().count(http::field::retry_after) > 0};
  }

  static std::optional<Error> parse(http::response_parser<http::string_body>& parser,
                                    boost::beast::flat_buffer& buffer, bool closed) {
    try {
      ErrorCode error;
      while (buffer.size() > 0 && !parser.is_done()) {
        const std::size_t used = parser.put(buffer.data(), error);
        buffer.consume(used);
        if (error == http::error::need_more || used == 0) break;
        if (error) return failure(Fault::backend_protocol, "bad response: " + error.message());
      }
      if (!closed || parser.is_done()) {
        if (buffer.size() < buffer.max_size()) return std::nullopt;
        return failure(Fault::backend_protocol, "bad response: a line is too long");
      }
      if (!parser.got_some()) return failure(Fault::backend_closed, "the connection closed");
      error = {};
      parser.put_eof(error);
      if (!error) return std::nullopt;
    } catch (const std::exception&) {  // Beast 1.81 throws for a field of more than 64 KiB
      return failure(Fault::backend_protocol, "bad response: a field is too large");
    }
    return failure(Fault::backend_closed, "the connection closed before the response was complete");
  }

  asio::io_context io_{1};
  StreamPtr stream_;  // idle, kept for the next request
};

AdminClient::AdminClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AdminClient::~AdminClient() = default;

Result<std::unique_ptr<AdminClient>> AdminClient::open(const AdminTarget& target) {
  auto impl = std::make_unique<Impl>();
  std::string_view text = target.address;
  const bool secure = text.starts_with("https://");
  if (secure) text.remove_prefix(8);
  if (text.starts_with("http://")) text.remove_prefix(7);
  if (text.ends_with('/')) text.remove_suffix(1);
  std::string why;
  auto address = parse_address(text, why);
  if (!address) return usage_error("--admin " + target.address + ": " + why);
  if (address->port == 0) {
    return usage_error("the kernel chooses the port of " + target.address +
                       "; give the one that the daemon listens on, with --admin");
  }
  if (address->host == "0.0.0.0") address->host = "127.0.0.1";
  if (address->host == "::") address->host = "::1";
  auto endpoints = resolve(address->host, address->port);
  if (!endpoints) return std::move(endpoints.error());
  impl->address = to_string(*address);
  impl->host = address->host;
  impl->endpoints = std::move(*endpoints);
  impl->authority = impl->endpoints.front().text();
  if (!target.token_file.empty()) {
    auto token = read_token(target.token_file);
    if (!token) return std::move(token.error());
    impl->token = std::move(*token);
  }
  impl->token_needs_tls = secure;
  // From https to the clear only where no network can have caused the failure.
  impl->may_switch_scheme =
      target.either_scheme &&
      (!secure || std::ranges::all_of(impl->endpoints, [](const Endpoint& endpoint) {
        return to_asio(endpoint).address().is_loopback();
      }));
  if (secure || impl->may_switch_scheme) {
    auto context = tls_context(target);
    if (!context) return std::move(context.error());
    (secure ? impl->tls : impl->other_tls) = std::move(*context);
  }
  return std::unique_ptr<AdminClient>(new AdminClient(std::move(impl)));
}

Result<AdminResponse> AdminClient::get(const std::string& path, Duration timeout) {
  return impl_->get(path, timeout);
}

Result<AdminResponse> AdminClient::post(const std::string& path, const std::string& body,
                                        Duration timeout) {
  return impl_->post(path, body, timeout);
}

const std::string& AdminClient::address() const { return impl_->address; }

}  // namespace evenkeel
