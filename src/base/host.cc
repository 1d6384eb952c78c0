#include "evenkeel/base/host.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/byte_vector.h"

namespace evenkeel {
namespace {

bool has_upper(ByteVector bytes) { return any_of((bytes - 'A') <= 'Z' - 'A'); }

/// True if no letter of it is in upper case. It is asked of every request.
inline bool has_no_upper(std::string_view text) {
  constexpr std::size_t half = sizeof(ByteVector) / 2;
  if (text.size() < half) return std::none_of(text.begin(), text.end(), is_upper);
  const char* const last = text.data() + text.size();
  if (text.size() < sizeof(ByteVector)) {
    std::array<char, sizeof(ByteVector)> both;  // halves, which may overlap
    std::memcpy(both.data(), text.data(), half);
    std::memcpy(both.data() + half, last - half, half);
    return !has_upper(load_bytes(both.data()));
  }
  constexpr auto size = static_cast<std::ptrdiff_t>(sizeof(ByteVector));
  for (const char* at = text.data(); last - at > size; at += size) {
    if (has_upper(load_bytes(at))) return false;
  }
  return !has_upper(load_bytes(last - sizeof(ByteVector)));
}

constexpr std::string_view default_port(bool secure) { return secure ? "443" : "80"; }

std::string bracketed(std::string_view host) {
  const bool v6 = host.find(':') != std::string_view::npos;
  return v6 ? "[" + std::string(host) + "]" : std::string(host);
}

}  // namespace

std::optional<IpBytes> parse_ip(std::string_view text) {
  std::array<char, INET6_ADDRSTRLEN> terminated{};
  if (text.size() >= terminated.size() || text.find('\0') != text.npos) return std::nullopt;
  text.copy(terminated.data(), text.size());
  in_addr v4{};
  IpBytes bytes{};
  if (inet_pton(AF_INET, terminated.data(), &v4) == 1) {
    bytes[10] = bytes[11] = 0xff;
    std::memcpy(&bytes[12], &v4, sizeof v4);
    return bytes;
  }
  in6_addr v6{};
  if (inet_pton(AF_INET6, terminated.data(), &v6) == 1) {
    std::memcpy(bytes.data(), &v6, sizeof v6);
    return bytes;
  }
  return std::nullopt;
}

std::string ip_text(const IpBytes& ip) {
  constexpr IpBytes mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  constexpr std::size_t v4_begin = 12;
  const bool is_v4 = std::equal(ip.begin(), ip.begin() + v4_begin, mapped.begin());
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? ip.data() + v4_begin : ip.data(), text.data(),
            text.size());
  return text.data();
}

std::string_view host_of(std::string_view authority) {
  for (std::size_t at = authority.size(); at > 0; --at) {
    const char c = authority[at - 1];
    if (c == ':') return {authority.data(), at - 1};
    if (c == ']') break;  // of an IPv6 address, whose colons begin no port
  }
  return authority;
}

std::string_view normal_host(std::string_view host, std::string& storage) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.find(':') != host.npos) {
    const auto ip = parse_ip(host);
    if (ip) return storage = ip_text(*ip);
  }
  if (host.ends_with('.')) host.remove_suffix(1);
  if (has_no_upper(host)) return host;
  storage.assign(host);
  std::transform(storage.begin(), storage.end(), storage.begin(), to_lower);
  return storage;
}

std::string normal_host(std::string_view host) {
  std::string storage;
  return std::string(normal_host(host, storage));
}

std::string authority_of(std::string_view host, std::uint16_t port, bool secure) {
  const std::string digits = std::to_string(port);
  return digits == default_port(secure) ? bracketed(host) : bracketed(host) + ":" + digits;
}

bool is_normal_authority(std::string_view authority, bool secure) {
  const std::string_view host = host_of(authority);
  if (host.empty() || host.front() == '[' || host.back() == '.' || !has_no_upper(host)) {
    return normal_authority(authority, secure) == authority;
  }
  const std::string_view port = authority.substr(host.size());
  constexpr std::size_t max_default_size = std::string_view(":443").size();
  if (port.size() > max_default_size) return port[1] != '0';
  return port.empty() || normal_authority(authority, secure) == authority;
}

std::string normal_authority(std::string_view authority, bool secure) {
  const std::string_view host = host_of(authority);
  std::string_view port = authority.substr(host.size());
  if (port.starts_with(':')) port.remove_prefix(1);
  port.remove_prefix(std::min(port.find_first_not_of('0'), port.size()));
  const std::string text = bracketed(normal_host(host));
  return port.empty() || port == default_port(secure) ? text : text + ":" + std::string(port);
}

}  // namespace evenkeel
