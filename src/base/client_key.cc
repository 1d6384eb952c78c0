#include "evenkeel/base/client_key.h"

#include <algorithm>
#include <array>

#include "evenkeel/base/hash.h"

namespace evenkeel {
namespace {

constexpr std::uint64_t tenant_salt = 0x9e3779b97f4a7c15;

}  // namespace

std::uint64_t client_key(std::uint32_t tenant, std::string_view address) {
  return tenant != 0 ? hash_of(tenant_salt, tenant) : client_key(address);
}

std::uint64_t client_key(std::string_view address) {
  const auto ip = parse_ip(address);
  return ip ? client_key(*ip) : hash_of(address);
}

std::uint64_t client_key(const IpBytes& address) {
  constexpr std::array<std::uint8_t, 12> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  constexpr std::size_t network_bytes = 8;
  const bool is_ipv4 = std::equal(mapped.begin(), mapped.end(), address.begin());
  return hash_of(
      {reinterpret_cast<const char*>(address.data()), is_ipv4 ? address.size() : network_bytes});
}

}  // namespace evenkeel
