// Whose share of a budget a request takes.
#pragma once

#include <cstdint>
#include <string_view>

namespace evenkeel {

struct RequestIdentity;

/// A hash of what counts as one client where many share a limit: the tenant, else the client's
/// address, of IPv6 the network of 64 bits, of which one client has all addresses.
std::uint64_t client_key(const RequestIdentity& identity);

/// As `client_key`, of an address without port.
std::uint64_t client_key(std::string_view address);

}  // namespace evenkeel
