// Which address a request came from, behind proxies that may be believed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evenkeel/config/address.h"
#include "evenkeel/http/fields.h"

namespace evenkeel {

/// The client as trusted proxies name it: the last address in X-Forwarded-For that is not a trusted
/// proxy itself, or the first of all if every one is. Without X-Forwarded-For, the same of the
/// `for` parameters of Forwarded (RFC 7239). Ports are cut off.
///
/// Nothing where neither field ends in an address. The search ends at a name that is no address
/// ("unknown", "_hidden"): what stands before it is not believed.
///
/// The result is as `ip_text` writes it. REQUIRES: the peer is one of the trusted proxies.
std::optional<std::string> forwarded_client(const Fields& fields,
                                            const std::vector<Network>& trusted_proxies);

}  // namespace evenkeel
