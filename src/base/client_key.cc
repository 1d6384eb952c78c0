#include "evenkeel/base/client_key.h"

#include <string>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/host.h"

namespace evenkeel {
namespace {

constexpr std::uint64_t tenant_salt = 0x9e3779b97f4a7c15;

}  // namespace

std::uint64_t client_key(std::uint32_t tenant, std::string_view address) {
  return tenant != 0 ? hash_of(tenant_salt, tenant) : client_key(address);
}

std::uint64_t client_key(std::string_view address) {
  if (address.find(':') == address.npos) return hash_of(address);
  const auto ip = parse_ip(address);
  if (!ip) return hash_of(address);
  if (const std::string text = ip_text(*ip); text.find(':') == text.npos) return hash_of(text);
  constexpr std::size_t network_bytes = 8;
  return hash_of({reinterpret_cast<const char*>(ip->data()), network_bytes});
}

}  // namespace evenkeel
