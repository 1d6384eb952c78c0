// What counts as one client where many share a limit.
#pragma once

#include <cstdint>
#include <string_view>

#include "evenkeel/base/host.h"

namespace evenkeel {

/// A hash of an address, of IPv6 of its network of 64 bits: one client has all addresses of it.
std::uint64_t client_key(const IpBytes& address);
/// The key of an address in text, without port.
std::uint64_t client_key(std::string_view address);

/// A hash of the tenant, or of the address if there is none (0).
std::uint64_t client_key(std::uint32_t tenant, std::string_view address);

}  // namespace evenkeel
