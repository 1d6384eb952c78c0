#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/host.h"

namespace evenkeel {

// An address to listen on or to connect to: a host name or IP literal, and a TCP port.
struct Address {
  std::string host;        // never with brackets: "::1", not "[::1]"
  std::uint16_t port = 0;  // 0 only for listeners: the kernel chooses
  bool secure = false;     // only for backends: was written with https://

  bool operator==(const Address&) const = default;
};

// "host:port", with an IPv6 literal in brackets. What parse_address reads back.
std::string to_string(const Address& address);

// Reads "host:port", "[v6]:port", and for listeners ":port" and "*:port" (all of IPv4). On failure
// returns nothing and sets `why` to what is wrong.
std::optional<Address> parse_address(std::string_view text, std::string& why);

// Reads where a backend is: "host:port" or "http[s]://host[:port][/]"; the port may not be 0.
std::optional<Address> parse_backend_address(std::string_view text, std::string& why);

// Reads where a name server is: an IP address, and a port if it is not 53.
std::optional<Address> parse_name_server(std::string_view text, std::string& why);

// A database of a Redis or Valkey server.
struct RedisAddress {
  Address server;  // secure: over TLS
  std::uint32_t database = 0;

  bool operator==(const RedisAddress&) const = default;
};

// Reads "redis://host[:port][/database]", or rediss:// for TLS.
std::optional<RedisAddress> parse_redis_address(std::string_view text, std::string& why);
std::string to_string(const RedisAddress& address);

// True if the text may be a Host field: "host" or "host:port". If not, `why` says what is wrong.
bool is_host_field(std::string_view text, std::string& why);

// A block of addresses, such as 10.0.0.0/8, ::1 or fd00::/8.
struct Network {
  IpBytes first{};
  unsigned prefix_bits = 128;  // counted over the 16 bytes: 10.0.0.0/8 has 104
  std::string text;            // as written

  bool contains(const IpBytes& ip) const;
  bool operator==(const Network&) const = default;
};

std::optional<Network> parse_network(std::string_view text, std::string& why);

}  // namespace evenkeel
