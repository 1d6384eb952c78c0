// Whose share of a budget a request takes.
#pragma once

#include <cstdint>

#include "evenkeel/base/client_key.h"

namespace evenkeel {

struct RequestIdentity;

/// What counts as one client where many share a limit: the tenant, else the client's address.
std::uint64_t client_key(const RequestIdentity& identity);

}  // namespace evenkeel
