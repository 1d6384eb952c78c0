#include "evenkeel/admin/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/error.hpp>
#include <memory>
#include <utility>
#include <variant>

#include "admin/http_client.h"
#include "evenkeel/base/file.h"
#include "evenkeel/config/address.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/net/tls_errors.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_token_file_bytes = 8 * 1024;

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
  auto verifying = verifying_tls_context(target.ca_file);
  if (!verifying) return verifying;
  const AdminStream::TlsContext& context = *verifying;
  ErrorCode error;
  if (target.cert_file.empty()) {
    if (target.key_file.empty()) return verifying;
    return usage_error("--key needs the certificate of that key: --cert FILE");
  }
  context->use_certificate_chain_file(target.cert_file, error);
  if (error) return usage_error("--cert " + target.cert_file + ": " + error.message());
  const std::string& key = target.key_file.empty() ? target.cert_file : target.key_file;
  context->use_private_key_file(key, asio::ssl::context::pem, error);
  if (error) return usage_error("--key " + key + ": " + error.message());
  return verifying;
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

bool is_loopback(const Endpoint& endpoint) {
  ErrorCode error;
  return asio::ip::make_address(endpoint.host(), error).is_loopback() && !error;
}

}  // namespace

class AdminClient::Impl {
 public:
  std::string address;
  std::string authority;  // an address: the listener refuses names that it does not know
  std::string token;
  HttpClient client{max_response_bytes};
  AdminStream::TlsContext other_tls;  // of the other scheme
  bool may_switch_scheme = false;
  bool token_needs_tls = false;

  Result<AdminResponse> get(const std::string& path, Duration timeout) {
    const bool reused = client.is_connected();
    auto response = request("GET", path, "", timeout);
    // The daemon closes a connection that has been idle for long.
    if (response || !reused || response.error().fault != Fault::backend_closed) return response;
    return request("GET", path, "", timeout);
  }

  Result<AdminResponse> post(const std::string& path, const std::string& body, Duration timeout) {
    client.disconnect();
    return request("POST", path, body, timeout);
  }

 private:
  Result<AdminResponse> request(std::string_view method, const std::string& path,
                                const std::string& body, Duration timeout) {
    const auto send = [&]() -> Result<AdminResponse> {
      auto answer = client.send(head_of(method, path, body.size()) + body, timeout);
      if (!answer) return std::move(answer.error());
      return AdminResponse{answer->status, std::move(answer->body),
                           answer->retry_after.has_value()};
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
    return client.server().tls != nullptr
               ? error.fault == Fault::tls_failed
               : error.fault == Fault::backend_closed || error.fault == Fault::backend_protocol;
  }

  void switch_scheme() { std::swap(client.server().tls, other_tls); }

  std::string head_of(std::string_view method, const std::string& path,
                      std::size_t body_size) const {
    std::string head =
        fmt::format("{} {} HTTP/1.1\r\nhost: {}\r\naccept: */*\r\n", method, path, authority);
    const bool sends_token = !token.empty() && (client.server().tls != nullptr || !token_needs_tls);
    if (sends_token) head += fmt::format("authorization: Bearer {}\r\n", token);
    if (method == "POST") head += fmt::format("content-length: {}\r\n", body_size);
    return head + "\r\n";
  }
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
  HttpServer& server = impl->client.server();
  server.host = address->host;
  server.endpoints = std::move(*endpoints);
  server.tls_failure = tls_failure;
  server.closed_hint = "; a listener with TLS needs https:// in --admin";
  impl->authority = server.endpoints.front().text();
  if (!target.token_file.empty()) {
    auto token = read_token(target.token_file);
    if (!token) return std::move(token.error());
    impl->token = std::move(*token);
  }
  impl->token_needs_tls = secure;
  // From https to the clear only where no network can have caused the failure.
  impl->may_switch_scheme =
      target.either_scheme && (!secure || std::ranges::all_of(server.endpoints, is_loopback));
  if (secure || impl->may_switch_scheme) {
    auto context = tls_context(target);
    if (!context) return std::move(context.error());
    (secure ? server.tls : impl->other_tls) = std::move(*context);
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
