#include "evenkeel/http/client_key.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "evenkeel/base/hash.h"
#include "evenkeel/http/message.h"

namespace evenkeel {
namespace {

constexpr std::uint64_t tenant_salt = 0x9e3779b97f4a7c15;

}  // namespace

std::uint64_t client_key(const RequestIdentity& identity) {
  if (identity.tenant_index != 0) return hash_of(tenant_salt, identity.tenant_index);
  return client_key(identity.client);
}

std::uint64_t client_key(std::string_view address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.find(':') == address.npos || address.size() >= text.size()) return hash_of(address);
  std::ranges::copy(address, text.begin());
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  if (inet_pton(AF_INET6, text.data(), bytes.data()) != 1) return hash_of(address);
  if (address.starts_with("::ffff:")) return hash_of(address.substr(address.rfind(':') + 1));
  constexpr std::size_t network_bytes = 8;
  return hash_of({reinterpret_cast<const char*>(bytes.data()), network_bytes});
}

}  // namespace evenkeel
