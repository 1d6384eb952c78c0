#include "evenkeel/net/endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <cstring>

#include "evenkeel/base/decimal.h"

namespace evenkeel {
std::uint16_t Endpoint::port() const {
  if (family() == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

IpBytes Endpoint::ip() const {
  IpBytes bytes{};
  if (family() == AF_INET) {
    bytes[10] = bytes[11] = 0xff;
    const auto& in = reinterpret_cast<const sockaddr_in&>(storage);
    std::memcpy(bytes.data() + 12, &in.sin_addr, 4);
  } else if (family() == AF_INET6) {
    const auto& in6 = reinterpret_cast<const sockaddr_in6&>(storage);
    std::memcpy(bytes.data(), &in6.sin6_addr, 16);
  }
  return bytes;
}

void Endpoint::set_port(std::uint16_t port) {
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(storage).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(storage).sin_port = htons(port);
  }
}

std::string Endpoint::host() const {
  char text[INET6_ADDRSTRLEN] = {};
  if (family() == AF_INET6) {
    const auto& in6 = reinterpret_cast<const sockaddr_in6&>(storage);
    if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
      inet_ntop(AF_INET, in6.sin6_addr.s6_addr + 12, text, sizeof text);
    } else {
      inet_ntop(AF_INET6, &in6.sin6_addr, text, sizeof text);
    }
  } else {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(storage).sin_addr, text, sizeof text);
  }
  return text;
}

std::string Endpoint::text() const {
  const std::string name = host();
  const std::string number = std::to_string(port());
  return name.find(':') == std::string::npos ? name + ":" + number : "[" + name + "]:" + number;
}

Result<std::vector<Endpoint>> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failure != 0) {
    return Error{.fault = Fault::connect_failed,
                 .side = Side::backend,
                 .detail = "cannot resolve '" + host + "': " + gai_strerror(failure)};
  }
  std::vector<Endpoint> endpoints;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
    Endpoint endpoint;
    std::memcpy(&endpoint.storage, at->ai_addr, at->ai_addrlen);
    endpoint.size = at->ai_addrlen;
    endpoints.push_back(endpoint);
  }
  freeaddrinfo(found);
  if (endpoints.empty()) {
    return Error{.fault = Fault::connect_failed,
                 .side = Side::backend,
                 .detail = "'" + host + "' has no IPv4 or IPv6 address"};
  }
  return endpoints;
}

Result<Cidr> Cidr::parse(const std::string& text) {
  const Error bad{.fault = Fault::bad_request,
                  .detail = "'" + text + "' is not an address or a network such as 10.0.0.0/8"};
  const auto slash = text.find('/');
  const std::string host = text.substr(0, slash);
  Cidr cidr;
  unsigned max_bits = 128;
  unsigned offset = 0;
  if (in_addr v4; inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    cidr.bytes_[10] = cidr.bytes_[11] = 0xff;
    std::memcpy(cidr.bytes_ + 12, &v4, 4);
    max_bits = 32;
    offset = 96;
  } else if (inet_pton(AF_INET6, host.c_str(), cidr.bytes_) != 1) {
    return bad;
  }
  const auto bits = slash == std::string::npos
                        ? max_bits
                        : parse_number<unsigned>(std::string_view(text).substr(slash + 1));
  if (!bits || *bits > max_bits) return bad;
  cidr.bits_ = *bits + offset;
  return cidr;
}

bool Cidr::contains(const Endpoint& endpoint) const {
  const IpBytes bytes = endpoint.ip();
  const unsigned whole = bits_ / 8;
  if (std::memcmp(bytes.data(), bytes_, whole) != 0) return false;
  const unsigned rest = bits_ % 8;
  if (rest == 0) return true;
  const auto mask = static_cast<std::uint8_t>(0xff << (8 - rest));
  return (bytes[whole] & mask) == (bytes_[whole] & mask);
}

}  // namespace evenkeel
