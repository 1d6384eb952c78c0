#include "cli/admin_client.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "evenkeel/config/address.h"
#include "evenkeel/net/endpoint.h"

namespace evenkeel {
namespace {

/// 25 000 backends. Bounds the memory that a hostile server can make us use.
constexpr std::size_t max_response_bytes = std::size_t{16} << 20;

Error usage_error(std::string detail) {
  return {.fault = Fault::bad_request, .side = Side::client, .detail = std::move(detail)};
}

Result<std::string> read_token(const std::string& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) return usage_error(file + ": " + std::strerror(errno));
  std::string token;
  std::istringstream(text.str()) >> token;
  if (token.empty()) return usage_error(file + ": is empty");
  return token;
}

}  // namespace

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  constexpr std::string_view unreserved =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
  std::string encoded;
  for (const char c : text) {
    if (unreserved.find(c) != std::string_view::npos) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded.append({'%', digits[byte >> 4], digits[byte & 15]});
    }
  }
  return encoded;
}

Result<std::unique_ptr<AdminClient>> AdminClient::open(const AdminTarget& target) {
  std::string_view text = target.address;
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

  // An admin listener refuses host names other than its own in `Host`: a page of another site could
  // have one that resolves to it. So the request carries the IP address.
  ServerAccess access{.addresses = std::move(*endpoints)};
  access.authority = access.addresses.front().text();
  // Each request brings its own timeout.
  access.links.link.first_byte_timeout = std::chrono::hours(24);
  access.links.link.idle_timeout = std::chrono::hours(24);
  if (!target.token_file.empty()) {
    auto token = read_token(target.token_file);
    if (!token) return usage_error("--token-file " + token.error().detail);
    access.authorization = "Bearer " + *token;
  }
  return std::unique_ptr<AdminClient>(new AdminClient(to_string(*address), std::move(access)));
}

AdminClient::AdminClient(std::string address, ServerAccess access)
    : address_(std::move(address)), client_(loop_, std::move(access)) {}

Result<Fetched> AdminClient::get(std::string path, Duration timeout) {
  return fetch({.path = std::move(path), .max_bytes = max_response_bytes}, timeout);
}

Result<Fetched> AdminClient::post(std::string path, std::string json, Duration timeout) {
  return fetch({.method = "POST",
                .path = std::move(path),
                .json = std::move(json),
                .max_bytes = max_response_bytes},
               timeout);
}

Result<Fetched> AdminClient::fetch(BackendClientRequest client_request, Duration timeout) {
  auto response = client_.fetch(std::move(client_request), loop_.read_clock() + timeout);
  loop_.run_until([&] { return response.ready(); });
  return response.take();
}

}  // namespace evenkeel
