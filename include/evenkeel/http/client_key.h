// The client whose share of a budget a request takes.
#pragma once

#include <cstdint>

#include "evenkeel/base/client_key.h"

namespace evenkeel {

struct RequestIdentity;

/// The tenant whose share a request takes; 0: its client has one of its own.
std::uint32_t sharing_tenant(const RequestIdentity& identity);

/// What counts as one client where many share a limit: the tenant, else the client's address.
std::uint64_t client_key(const RequestIdentity& identity);

}  // namespace evenkeel
