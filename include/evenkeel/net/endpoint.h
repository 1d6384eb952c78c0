// IP addresses with a port, and networks.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "evenkeel/base/host.h"
#include "evenkeel/base/result.h"

namespace evenkeel {

/// An IPv4 or IPv6 socket address.
struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  IpBytes ip() const;
  /// "192.0.2.1" or "2001:db8::1".
  std::string host() const;
  /// "192.0.2.1:80" or "[2001:db8::1]:80".
  std::string text() const;

  bool operator==(const Endpoint& other) const {
    return size == other.size && std::memcmp(&storage, &other.storage, size) == 0;
  }
};

/// Every address of a name or a literal (without brackets), in the resolver's order, or an Error
/// that says why there is none. Blocks: for start-up and the control thread only.
Result<std::vector<Endpoint>> resolve(const std::string& host, std::uint16_t port);

/// A network such as 10.0.0.0/8.
class Cidr {
 public:
  /// An Error if the text is not an address with an optional prefix length.
  static Result<Cidr> parse(const std::string& text);
  bool contains(const Endpoint& endpoint) const;

 private:
  std::uint8_t bytes_[16] = {};  // IPv4 as IPv4-mapped IPv6
  unsigned bits_ = 0;
};

}  // namespace evenkeel
